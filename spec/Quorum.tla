------------------------------- MODULE Quorum -------------------------------
(* A lease on several independent masters (the members) that know nothing of each other.

   A replica asks all of them, and counts. A campaign is a round of two questions: who grants (for a third of a lease,
   under a token of its own), and, if a majority granted and nobody objects, a raise of the granters to the term's token
   for a whole lease. A majority that was raised makes a leader. Whatever came to nothing is released everywhere.

   Each rule is a switch (see Off):
     R2 sent        a deadline is counted from the sending of the raise, or of the renewal       Raised, Renewed
     R3 floor       a campaign carries the greatest token its replica has seen                   Campaign, Raised
     R3 clock       a member whose clock is ahead of all tokens grants above them (see Ahead)    NextToken
     R3 greatest    the term's token is the greatest that was granted                            Voted
     R3 reported    it is one above whatever any member reported, if that is greater             TokenOf
     R3 smaller     a member is raised to no smaller token than it has granted                  Raise
     confirm        the raise. Without it a grant is a whole lease and counts at once (Redlock)  Campaign, Decide
     majority       a majority must have been raised, not one                                    Raised
     objection      a live, confirmed lease of another, on any member, is a veto                 Decide
     last           ... and so is a grant, if only one granter knows of the newest term          Voted, Decide
     R4 reassert    a renewal puts the lease back where it is lost                               Renew
     R5 generation  a member that restarted with its data grants nobody new for a lease          Restart, Prepared
     R5 empty       the same without data                                                        Prepared
     R5 until       the same when the lease is gone before the end that the record remembers     Campaign
     R7 own         a release takes back exactly the lease and the term that were given up       Release
     R7 promises    it is not sent before the promises given out have run out                    GiveBack
     joint          a list of the members is changed over both: a majority of each               Roll, Lists
     led            ... and the old list goes only when somebody leads by both                   Roll
     list           a member objects to a list that has nothing in common with the one before    Campaign

   Time is in ticks. Every timer is a countdown; so there is no horizon. Clocks that are 1 % apart: a deadline lasts a
   whole lease from its sending (the margin is taken to be eaten up), and so does a member's lease from its execution.
   A third of a lease is one tick: the models have leases of three. (What breaks without a rule is shown with less.)

   Built in, without a switch: what a majority knows to be given back is over, whoever objects (Decide); what came to
   nothing is taken back (TakeBack); a majority's renewal counts (Renewed); no answer is neither yes nor no (Miss, R2);
   a term past its deadline is over (Aged, R2); a campaign that is repeated has the same grant (Campaign, R1). There is
   no R6, for members have no replicas that count, and of R5 neither regression nor standing still: a member that has
   missed a term is as usual.

   A request is executed by its member and answered in one step, at any time after it was sent: what a late answer could
   do, a late decision does. It may be lost, or its answer (a fault, but free where the member does not answer at all),
   or be executed long after anybody waits (a fault): then it is in net. A replica that starts anew, with another list,
   or because it was killed, is a new session; the promises it has given out stand to their end.

   Left out, and why: what is heard (R8: it only postpones campaigns, and may tell of a release: a campaign carries one
   or does not, see Ask); who goes first of those who share the members, and rounds that end early as hopeless (they
   only fail sooner); a clock's step back (a lease and a guard are cut to their length, so it makes them longer by less
   than one of themselves); leases of different length; the release in the place of a process that has ended; a member
   that objects for the `store.redis` that it was before; "every member is needed" instead of a majority. A restart
   with data brings back all of it, or what the member had before the first term, as from an old file. At the beginning
   every member has been asked before, and its first guard is over. The first question of a round is answered, or given
   up, within a tick (the command timeout is well below a third of a lease), and what came to nothing is taken back at
   once (TakeBack).

   In the fault "overlap" the answers to one campaign come from different moments: from before and from after another
   replica was raised. It needs no budget: nothing is broken then, one network is only slower than another. It is what
   "last" is for: a member that is asked before it is raised tells of a grant, and is not asked again. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Replicas,       \* the app's replicas
    Members,        \* the servers
    Before, After,  \* the list of the members: before a change of it, and after; the same, if there is none
    Ahead,          \* the members whose clocks are ahead of every token that was ever given
    Lease,          \* a lease, in ticks
    Off,            \* the rules that are switched off
    Faults,         \* what may befall
    FaultsMax, Rounds, Tokens, Steps    \* bounds: faults; campaigns of a replica; tokens; steps of a behaviour

ASSUME Off \subseteq {"sent", "floor", "clock", "greatest", "reported", "confirm", "majority", "objection", "reassert",
                      "generation", "empty", "until", "smaller", "own", "promises", "joint", "led", "list", "last"}
ASSUME Faults \subseteq {"empty", "restart", "evict", "clock", "down", "lost", "late", "kill", "overlap"}

VARIABLES
    db,         \* what each member keeps of the role
    up,         \* the members that answer
    proc,       \* the replicas
    net,        \* requests that come late
    ended,      \* the last term that was given back
    top,        \* the greatest token of a term
    given,      \* the greatest token that was granted, as the clocks that are ahead know it
    faults,     \* how many faults there were
    broken      \* the promises that were broken

vars == <<db, up, proc, net, ended, top, given, faults, broken>>

On(rule) == rule \notin Off
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Less(a) == IF a > 0 THEN a - 1 ELSE 0

Third == 1
Nobody == <<>>
NoLease == [left |-> 0]
NoRecord == [tok |-> 0]
HasLease(d) == d.lease.left > 0
HasRecord(d) == d.rec # NoRecord

\* Who asks: <<replica, session, attempt>>.
Session(who) == <<who[1], who[2]>>
SameSession(one, other) == one # Nobody /\ Session(one) = Session(other)

-----------------------------------------------------------------------------
\* The lists of the members.

Changes == Before # After

\* Which lists are in use: the one before, both of them, the one after.
Lists(stage) == IF stage = 0 THEN {Before} ELSE IF stage = 1 THEN {Before, After} ELSE {After}

Asked(stage) == UNION Lists(stage)

\* A majority of each.
Enough(stage, who) == \A list \in Lists(stage) : 2 * Cardinality(who \cap list) > Cardinality(list)

-----------------------------------------------------------------------------
\* A member's side: one atomic step each. An answer is what the replica adds up: is, the token, two flags.

\* tok: the greatest token that is known here. confirmed: the greatest that was confirmed here. last: whose session was
\* confirmed here last. over: the greatest of a term that its holder gave back. until: when the lease ends that was
\* confirmed last. lists, listed: by which lists, and how long others are refused.
BlankRecord == [tok |-> 0, confirmed |-> 0, over |-> 0, until |-> 0, guard |-> 0, writer |-> Nobody,
                restarted |-> FALSE, lists |-> {}, listed |-> 0]

Blank == [lease |-> NoLease, rec |-> BlankRecord]
Nothing == [lease |-> NoLease, rec |-> NoRecord]

\* R5: what every step does first.
Prepared(d) ==
    IF ~HasRecord(d) THEN [BlankRecord EXCEPT !.guard = IF On("empty") THEN Lease ELSE 0]
    ELSE IF d.rec.restarted THEN [d.rec EXCEPT !.guard = Max(@, Lease), !.confirmed = 0, !.restarted = FALSE]
    ELSE d.rec

IsReleased(rec) == rec.confirmed > 0 /\ rec.over >= rec.confirmed

Agree(one, other) == one = {} \/ other = {} \/ one \cap other # {}

\* A lease by these lists was confirmed: others are refused for a lease after it.
Listed(rec, lists, span) ==
    IF ~Changes \/ ~On("list") THEN rec
    ELSE [rec EXCEPT !.lists = lists, !.listed = IF Agree(rec.lists, lists) THEN Max(@, span) ELSE span]

\* The same for a grant, which may come to nothing: what a term has told is not forgotten for it.
ListedGrant(rec, lists) == IF rec.listed = 0 \/ rec.lists = lists THEN Listed(rec, lists, Third) ELSE rec

Confirmed(rec, tok, lists) ==
    Listed([rec EXCEPT !.tok = Max(@, tok), !.confirmed = Max(@, tok), !.until = Lease], lists, 2 * Lease)

\* R3.
NextToken(m, rec, floor) ==
    1 + Max(Max(rec.tok, IF On("floor") THEN floor ELSE 0), IF On("clock") /\ m \in Ahead THEN given ELSE 0)

SaysOf(d, is, tok, flag, last) == [d |-> d, is |-> is, tok |-> tok, flag |-> flag, last |-> last]
Says(d, is, tok, flag) == SaysOf(d, is, tok, flag, 0)

\* rec: as it was before; it tells of the last term, unless that was given back.
Grants(d, rec, tok) ==
    LET over == IsReleased(rec) IN SaysOf(d, "granted", tok, over, IF over THEN 0 ELSE rec.confirmed)

\* Who was granted last. Without late requests nobody asks for less than that.
Written(who) == IF "late" \in Faults THEN who ELSE Nobody

\* R1. flag: of a grant, whether the last term confirmed here was given back; of a lease, whether it is confirmed.
Campaign(m, q) ==
    LET p == Prepared(db[m])
        r0 == [p EXCEPT !.tok = IF On("floor") THEN Max(@, q.floor) ELSE @]
        d0 == [lease |-> db[m].lease, rec |-> r0]
        unlisted == On("list") /\ r0.listed > 0 /\ ~Agree(r0.lists, q.lists)
        \* It is told of a release that has not come here.
        drops == HasLease(d0) /\ d0.lease.confirmed /\ q.over # <<>> /\ q.over = <<Session(d0.lease.who), d0.lease.tok>>
        rec == IF drops THEN [r0 EXCEPT !.until = 0] ELSE r0
        d == [lease |-> IF drops THEN NoLease ELSE d0.lease, rec |-> rec]
        tok == NextToken(m, rec, q.floor)
        r2 == ListedGrant([rec EXCEPT !.tok = tok, !.writer = Written(q.who)], q.lists)
    IN  IF unlisted THEN Says(d0, "unlisted", r0.tok, FALSE)
        ELSE IF HasLease(d) /\ d.lease.who = q.who THEN Grants(d, rec, d.lease.tok)
        ELSE IF HasLease(d) /\ ~SameSession(d.lease.who, q.who) THEN Says(d, "held", d.lease.tok, d.lease.confirmed)
        ELSE IF HasLease(d) /\ d.lease.who[3] > q.who[3] THEN Says(d, "stale", rec.tok, FALSE)
        ELSE IF SameSession(rec.writer, q.who) /\ rec.writer[3] >= q.who[3] THEN Says(d, "stale", rec.tok, FALSE)
        ELSE IF rec.guard > 0 \/ (On("until") /\ ~HasLease(d) /\ rec.until > 0) THEN Says(d, "guarded", rec.tok, FALSE)
        ELSE IF On("confirm")
        THEN Grants([lease |-> [left |-> Third, who |-> q.who, tok |-> tok, confirmed |-> FALSE], rec |-> r2], rec, tok)
        ELSE Grants([lease |-> [left |-> Lease, who |-> q.who, tok |-> tok, confirmed |-> TRUE],
                     rec |-> Confirmed(r2, tok, q.lists)], rec, tok)

\* Confirms a grant, if it is still there and the member has not restarted since.
Raise(m, q) ==
    LET rec == Prepared(db[m])
        lease == db[m].lease
        fits == lease.left > 0 /\ lease.who = q.who /\ (lease.tok <= q.tok \/ ~On("smaller")) /\ rec.guard = 0
    IN  IF fits THEN Says([lease |-> [lease EXCEPT !.left = Lease, !.tok = q.tok, !.confirmed = TRUE],
                           rec |-> Confirmed(rec, q.tok, q.lists)], "raised", 0, FALSE)
        ELSE Says([db[m] EXCEPT !.rec = rec], "gone", rec.tok, FALSE)

\* R4. Only a later term's lease and the holder's own release are in its way.
Renew(m, q) ==
    LET rec == Prepared(db[m])
        lease == db[m].lease
        mine == lease.left > 0 /\ lease.who = q.who
        later == lease.left > 0 /\ lease.confirmed /\ lease.tok > q.tok
    IN  IF mine \/ (On("reassert") /\ rec.over < q.tok /\ ~later)
        THEN Says([lease |-> [left |-> Lease, who |-> q.who, tok |-> q.tok, confirmed |-> TRUE],
                   rec |-> Confirmed(rec, q.tok, q.lists)], "renewed", 0, FALSE)
        ELSE Says([db[m] EXCEPT !.rec = rec], "lost", rec.tok, rec.tok > q.tok)

\* R7. Without a token (0) it was no term, only a campaign that came to nothing.
Release(m, q) ==
    LET lease == db[m].lease
        fits == lease.who = q.who /\ (q.tok = 0 \/ ~lease.confirmed \/ lease.tok = q.tok)
        mine == lease.left > 0 /\ (fits \/ ~On("own"))
        rec == IF HasRecord(db[m]) THEN db[m].rec ELSE [BlankRecord EXCEPT !.restarted = On("generation")]
        r1 == [rec EXCEPT !.tok = Max(@, q.tok), !.over = Max(@, q.tok)]
        r2 == IF (mine /\ lease.confirmed) \/ IsReleased(r1)
              THEN [r1 EXCEPT !.until = 0, !.listed = Min(@, Lease)] ELSE r1
        r3 == IF mine /\ ~lease.confirmed /\ r2.listed <= lease.left THEN [r2 EXCEPT !.listed = 0] ELSE r2
    IN  IF ~mine /\ q.tok = 0 THEN Says(db[m], "not held", 0, FALSE)
        ELSE Says([lease |-> IF mine THEN NoLease ELSE lease, rec |-> r3], "released", 0, FALSE)

Step(m, q) ==
    CASE q.op = "campaign" -> Campaign(m, q) [] q.op = "raise" -> Raise(m, q)
      [] q.op = "renew" -> Renew(m, q)       [] OTHER -> Release(m, q)

-----------------------------------------------------------------------------
\* The replicas. out: <<what, whom>> they have asked and not been answered. yes, no: who granted, raised or renewed, and
\* who answered otherwise. rel: who granted and knows that the last term was given back. last: which granters know of
\* which term that was not. rival: somebody has another's grant. left: the deadline that the question may earn. acts: for
\* how long the app may act on what it was promised.

NewProc(session, attempt, stage, acts) ==
    [session |-> session, attempt |-> attempt, stage |-> stage, phase |-> "idle",
     out |-> {}, yes |-> {}, no |-> {}, rel |-> {}, last |-> {}, rival |-> FALSE, tok |-> 0, most |-> 0, veto |-> FALSE,
     unlisted |-> FALSE, over |-> <<>>, left |-> 0, acts |-> acts, floor |-> 0]

Me(r) == <<r, proc[r].session, proc[r].attempt>>

\* The votes on the last question are not needed any more.
Counted(p) == [p EXCEPT !.yes = {}, !.no = {}, !.rel = {}, !.last = {}, !.rival = FALSE, !.most = 0, !.veto = FALSE,
                        !.unlisted = FALSE, !.left = 0, !.over = <<>>]

Befalls(fault) == fault \in Faults /\ faults < FaultsMax /\ faults' = faults + 1

Question(r, op) ==
    [op |-> op, who |-> Me(r), tok |-> IF op = "campaign" THEN 0 ELSE proc[r].tok,
     floor |-> IF op = "campaign" THEN proc[r].floor ELSE 0, over |-> IF op = "campaign" THEN proc[r].over ELSE <<>>,
     lists |-> IF Changes /\ On("list") THEN Lists(proc[r].stage) ELSE {}]

\* How many campaigns there have been: a bound.
RECURSIVE Sum(_)
Sum(R) == IF R = {} THEN 0 ELSE LET r == CHOOSE r \in R : TRUE IN proc[r].attempt + Sum(R \ {r})
Campaigns == Sum(Replicas)

\* It may have heard of the release of the last term; then it tells the members.
Ask(r) ==
    /\ proc[r].phase = "idle" /\ proc[r].out = {} /\ Campaigns < Rounds
    /\ \E over \in {<<>>, ended} :
        proc' = [proc EXCEPT ![r] = [Counted(@) EXCEPT !.phase = "asking", !.attempt = @ + 1, !.tok = 0, !.over = over,
                    !.left = IF On("confirm") THEN 0 ELSE Lease, !.out = {"campaign"} \X Asked(proc[r].stage)]]
    /\ UNCHANGED <<db, up, net, ended, top, given, faults, broken>>

\* What an answer adds to the votes. tok: while it asks, the greatest token that was granted.
Voted(p, op, m, a) ==
    IF op = "campaign" /\ p.phase = "asking"
    THEN IF a.is = "granted"
         THEN [p EXCEPT !.yes = @ \cup {m}, !.rel = IF a.flag THEN @ \cup {m} ELSE @, !.most = Max(@, a.tok),
                        !.last = IF a.last > 0 /\ On("last") THEN @ \cup {<<m, a.last>>} ELSE @,
                        !.tok = IF p.yes = {} THEN a.tok ELSE IF On("greatest") THEN Max(@, a.tok) ELSE Min(@, a.tok)]
         ELSE [p EXCEPT !.no = @ \cup {m}, !.most = Max(@, a.tok), !.veto = @ \/ (a.is = "held" /\ a.flag),
                        !.rival = @ \/ (a.is = "held" /\ ~a.flag /\ On("last")),
                        !.unlisted = @ \/ a.is = "unlisted"]
    ELSE IF op = "raise" /\ p.phase = "raising"
    THEN IF a.is = "raised" THEN [p EXCEPT !.yes = @ \cup {m}] ELSE [p EXCEPT !.no = @ \cup {m}, !.most = Max(@, a.tok)]
    ELSE IF op = "renew" /\ p.phase = "leading" /\ p.left > 0
    THEN IF a.is = "renewed" THEN [p EXCEPT !.yes = @ \cup {m}]
         ELSE [p EXCEPT !.no = @ \cup {m}, !.rel = IF a.flag THEN @ \cup {m} ELSE @]
    ELSE p

IsOut(p, op) == \E m \in Members : <<op, m>> \in p.out

\* The answers to a campaign come from different moments, and so do raises: one may go on while the other does.
Overlaps(r, op) ==
    \E q \in Replicas \ {r} :
        \/ op = "raise" /\ proc[q].phase = "asking" /\ proc[q].yes \cup proc[q].no # {}
        \/ op = "campaign" /\ proc[q].phase = "raising" /\ proc[q].yes # {} /\ IsOut(proc[q], "raise")

\* A member does what it is asked, and its answer comes, or is lost.
Execute(r, op, m) ==
    /\ m \in up
    /\ Overlaps(r, op) => "overlap" \in Faults
    /\ LET a == Step(m, Question(r, op))
           p == [proc[r] EXCEPT !.out = @ \ {<<op, m>>}]
       IN  /\ a.is = "granted" => a.tok <= Tokens
           /\ db' = [db EXCEPT ![m] = a.d]
           /\ given' = IF a.is = "granted" /\ Ahead # {} THEN Max(given, a.tok) ELSE given
           /\ \/ proc' = [proc EXCEPT ![r] = Voted(p, op, m, a)] /\ UNCHANGED faults
              \/ Befalls("lost") /\ op # "release" /\ proc' = [proc EXCEPT ![r] = p]
    /\ UNCHANGED <<up, net, ended, top, broken>>

\* It never does, or late.
Miss(r, op, m) ==
    /\ \/ m \notin up /\ UNCHANGED <<faults, net>>
       \/ Befalls("lost") /\ UNCHANGED net
       \/ Befalls("late") /\ net' = net \cup {[to |-> m, ask |-> Question(r, op)]}
    /\ proc' = [proc EXCEPT ![r].out = @ \ {<<op, m>>}]
    /\ UNCHANGED <<db, up, ended, top, given, broken>>

\* A late one is executed.
Arrive(n) ==
    /\ n.to \in up
    /\ LET a == Step(n.to, n.ask)
       IN  /\ a.is = "granted" => a.tok <= Tokens
           /\ db' = [db EXCEPT ![n.to] = a.d]
           /\ given' = IF a.is = "granted" /\ Ahead # {} THEN Max(given, a.tok) ELSE given
    /\ net' = net \ {n}
    /\ UNCHANGED <<up, proc, ended, top, faults, broken>>

\* R3: the greatest granted, or one above what was reported.
TokenOf(p) == IF On("reported") /\ p.tok < p.most THEN p.most + 1 ELSE p.tok

\* It leads now. Whoever was not raised is told by a renewal that nobody waits for.
Elected(p, tok, acts, raised) ==
    [Counted(p) EXCEPT !.phase = "leading", !.tok = tok, !.acts = Max(@, acts), !.floor = Max(@, tok),
                       !.out = @ \cup ({"renew"} \X (Asked(p.stage) \ raised))]

Leads(r, tok, acts, raised) ==
    /\ proc' = [proc EXCEPT ![r] = Elected(@, tok, acts, raised)]
    /\ top' = Max(top, tok)
    /\ broken' = IF tok <= top THEN broken \cup {"P2"} ELSE broken
    /\ UNCHANGED db

\* What was granted is taken back, without a token: it was no term. At once: where that is late, or lost, the grant
\* stands for the rest of a third, as that of one who was killed does.
TakeBack(r, floor) ==
    LET q == [op |-> "release", who |-> Me(r), tok |-> 0, floor |-> 0, over |-> <<>>, lists |-> {}] IN
    /\ proc' = [proc EXCEPT ![r] = [Counted(@) EXCEPT !.phase = "idle", !.tok = 0, !.floor = Max(@, floor)]]
    /\ db' = [m \in Members |-> IF m \in up \cap Asked(proc[r].stage) THEN Release(m, q).d ELSE db[m]]
    /\ UNCHANGED <<top, broken>>

\* Enough granted, and nobody objects. After a release a majority that knows of it is enough, whatever the others say.
Decide(r) ==
    LET p == proc[r]
        succession == Enough(p.stage, p.rel)
        newest == {known \in p.last : \A other \in p.last : other[2] <= known[2]}
        objected == (On("objection") /\ p.veto) \/ (p.rival /\ Cardinality(newest) = 1)
        vetoed == p.unlisted \/ (objected /\ ~succession)
        won == Enough(p.stage, p.yes) /\ ~vetoed
        tok == TokenOf(p)
        learnt == ~p.unlisted /\ ~p.veto /\ Enough(p.stage, p.yes \cup p.no)
    IN  /\ p.phase = "asking"
        /\ ~IsOut(p, "campaign") \/ (succession /\ won)
        /\ IF ~won THEN TakeBack(r, IF learnt THEN p.most ELSE 0)
           ELSE IF On("confirm")
           THEN /\ proc' = [proc EXCEPT ![r] = [Counted(@) EXCEPT !.phase = "raising", !.tok = tok, !.left = Lease,
                                !.out = {"raise"} \X p.yes, !.rel = p.yes]]
                /\ UNCHANGED <<db, top, broken>>
           ELSE IF p.left > 0 /\ (tok > p.floor \/ ~On("floor")) THEN Leads(r, tok, p.left, p.yes)
           ELSE TakeBack(r, 0)
    /\ UNCHANGED <<up, net, ended, given, faults>>

\* A majority was raised. (rel: who granted.)
Raised(r) ==
    LET p == proc[r]
        won == IF On("majority") THEN Enough(p.stage, p.yes) ELSE p.yes # {}
        acts == IF On("sent") THEN p.left ELSE Lease
    IN  /\ p.phase = "raising"
        /\ won \/ ~IsOut(p, "raise")
        /\ IF won /\ acts > 0 /\ (p.tok > p.floor \/ ~On("floor")) THEN Leads(r, p.tok, acts, p.rel)
           ELSE TakeBack(r, IF Enough(p.stage, p.yes \cup p.no) THEN Max(p.tok, p.most) ELSE 0)
    /\ UNCHANGED <<up, net, ended, given, faults>>

\* A renewal, of which all members are asked.
Extend(r) ==
    /\ proc[r].phase = "leading" /\ proc[r].out = {} /\ proc[r].left = 0 /\ proc[r].acts \in 1..(Lease - 1)
    /\ proc' = [proc EXCEPT ![r] = [Counted(@) EXCEPT !.left = Lease, !.out = {"renew"} \X Asked(proc[r].stage)]]
    /\ UNCHANGED <<db, up, net, ended, top, given, faults, broken>>

\* A majority renewed; or a majority says that a later term has come; or it is tried again.
Renewed(r) ==
    LET p == proc[r]
        won == Enough(p.stage, p.yes)
        heard == Enough(p.stage, p.yes \cup p.no)
    IN  /\ p.phase = "leading" /\ p.left > 0
        /\ won \/ ~IsOut(p, "renew")
        /\ proc' = [proc EXCEPT ![r] = [Counted(@) EXCEPT
                        !.acts = IF won THEN Max(@, IF On("sent") THEN p.left ELSE Lease) ELSE @,
                        !.phase = IF ~won /\ Enough(p.stage, p.rel) THEN "idle" ELSE @]]
        \* P5: enough members answered, nobody led since, and yet it cannot go on.
        /\ broken' = IF ~won /\ heard /\ top = p.tok THEN broken \cup {"P5"} ELSE broken
    /\ UNCHANGED <<db, up, net, ended, top, given, faults>>

\* R7: a resign or SIGTERM. Its app has said that it is done, so no promise stands.
GiveBack(r) ==
    /\ proc[r].phase = "leading" /\ proc[r].out = {}
    /\ ended' = <<<<r, proc[r].session>>, proc[r].tok>>
    /\ proc' = [proc EXCEPT ![r] = [Counted(@) EXCEPT !.phase = "back", !.acts = IF On("promises") THEN 0 ELSE @,
                    !.out = {"release"} \X Asked(proc[r].stage)]]
    /\ UNCHANGED <<db, up, net, top, given, faults, broken>>

\* It campaigns again when its release has come everywhere: each member is asked in order.
TookBack(r) ==
    /\ proc[r].phase = "back" /\ proc[r].out = {}
    /\ proc' = [proc EXCEPT ![r].phase = "idle", ![r].tok = 0]
    /\ UNCHANGED <<db, up, net, ended, top, given, faults, broken>>

-----------------------------------------------------------------------------
\* What befalls.

Ticked(d) ==
    [lease |-> IF d.lease.left > 1 THEN [d.lease EXCEPT !.left = @ - 1] ELSE NoLease,
     rec |-> IF HasRecord(d) THEN [d.rec EXCEPT !.guard = Less(@), !.until = Less(@), !.listed = Less(@),
                                       !.lists = IF d.rec.listed <= 1 THEN {} ELSE @] ELSE NoRecord]

\* A term past its deadline is over (R2).
Aged(p) ==
    LET over == p.phase = "leading" /\ p.acts <= 1
    IN  IF over THEN [Counted(p) EXCEPT !.acts = 0, !.phase = "idle", !.out = {}, !.tok = 0]
        ELSE [p EXCEPT !.acts = Less(@), !.left = Less(@)]

Tick ==
    /\ \A r \in Replicas : proc[r].phase \notin {"asking", "back"}     \* see at the top
    /\ db' = [m \in Members |-> Ticked(db[m])]
    /\ proc' = [r \in Replicas |-> Aged(proc[r])]
    /\ UNCHANGED <<up, net, ended, top, given, faults, broken>>

\* A replica starts anew.
Anew(r, stage) == proc' = [proc EXCEPT ![r] = NewProc(@.session + 1, @.attempt, stage, @.acts)]

Kill(r) ==
    /\ Befalls("kill") /\ proc[r].phase # "idle"
    /\ Anew(r, proc[r].stage)
    /\ UNCHANGED <<db, up, net, ended, top, given, broken>>

IsLeading(r) == proc[r].phase = "leading" /\ proc[r].acts > 0

\* The list of the members is changed, replica by replica: over both lists, the old one going when all have both, and
\* somebody leads by both; or at once.
Roll(r) ==
    /\ Changes
    /\ LET stage == proc[r].stage
           some == \E q \in Replicas : proc[q].stage = 2
           all == \A q \in Replicas : proc[q].stage >= 1
           led == ~On("led") \/ \E q \in Replicas : IsLeading(q) /\ proc[q].stage = 1
       IN  IF ~On("joint") THEN stage = 0 /\ Anew(r, 2)
           ELSE \/ stage = 0 /\ Anew(r, 1)
                \/ stage = 1 /\ (some \/ (all /\ led)) /\ Anew(r, 2)
    /\ UNCHANGED <<db, up, net, ended, top, given, faults, broken>>

\* Without its data; or with it, or what it had before the first term.
Restart(m) ==
    /\ \/ Befalls("empty") /\ db' = [db EXCEPT ![m] = Nothing]
       \/ /\ Befalls("restart") /\ HasRecord(db[m])
          /\ \E d \in {db[m], Blank} : db' = [db EXCEPT ![m] = [d EXCEPT !.rec.restarted = On("generation")]]
    /\ UNCHANGED <<up, proc, net, ended, top, given, broken>>

\* Its lease alone goes away.
Evict(m) ==
    /\ Befalls("evict") /\ HasLease(db[m]) /\ db' = [db EXCEPT ![m].lease = NoLease]
    /\ UNCHANGED <<up, proc, net, ended, top, given, broken>>

\* Its clock is stepped forwards: whatever runs there ends.
StepClock(m) ==
    /\ Befalls("clock") /\ HasRecord(db[m]) /\ db[m] # Ticked(db[m])
    /\ db' = [db EXCEPT ![m] = [lease |-> NoLease,
                                rec |-> [@.rec EXCEPT !.guard = 0, !.until = 0, !.listed = 0, !.lists = {}]]]
    /\ UNCHANGED <<up, proc, net, ended, top, given, broken>>

\* It is down, frozen or cut off; and back.
Down(m) ==
    /\ \/ m \in up /\ Befalls("down") /\ up' = up \ {m}
       \/ m \notin up /\ UNCHANGED faults /\ up' = up \cup {m}
    /\ UNCHANGED <<db, proc, net, ended, top, given, broken>>

-----------------------------------------------------------------------------
Symmetry ==
    Permutations(Replicas) \cup
    {p \in Permutations(Members) : {p[m] : m \in Before} = Before /\ {p[m] : m \in After} = After
                                   /\ {p[m] : m \in Ahead} = Ahead}

Init ==
    /\ db = [m \in Members |-> Blank]
    /\ up = Members
    /\ proc = [r \in Replicas |-> NewProc(0, 0, 0, 0)]
    /\ net = {} /\ ended = <<>> /\ top = 0 /\ given = 0 /\ faults = 0 /\ broken = {}

\* What a replica decides it decides at once: later is worse for it, if a deadline is counted from the sending (R2).
Decided(r) ==
    LET p == proc[r] IN
    \/ p.phase = "asking" /\ ~IsOut(p, "campaign")
    \/ On("sent") /\ p.phase = "raising" /\ (~IsOut(p, "raise") \/ Enough(p.stage, p.yes))
    \/ On("sent") /\ p.phase = "leading" /\ p.left > 0 /\ (~IsOut(p, "renew") \/ Enough(p.stage, p.yes))
    \/ p.phase = "back" /\ p.out = {}

Next ==
    \/ \E r \in Replicas : Decide(r) \/ Raised(r) \/ Renewed(r) \/ TookBack(r)
    \/ /\ ~\E r \in Replicas : Decided(r)
       /\ \/ Tick
          \/ \E r \in Replicas :
              \/ Ask(r) \/ Extend(r) \/ GiveBack(r) \/ Kill(r) \/ Roll(r)
              \/ \E q \in proc[r].out : Execute(r, q[1], q[2]) \/ Miss(r, q[1], q[2])
          \/ \E n \in net : Arrive(n)
          \/ \E m \in Members : Restart(m) \/ Evict(m) \/ StepClock(m) \/ Down(m)

Spec == Init /\ [][Next]_vars

\* A bound.
Within == TLCGet("level") <= Steps

-----------------------------------------------------------------------------
\* No two replicas' apps act at once; each term's token is greater; restarts cost no leadership.
P1 == \A r, q \in Replicas : proc[r].acts > 0 /\ proc[q].acts > 0 => r = q
P2 == "P2" \notin broken
P5 == "P5" \notin broken
=============================================================================
