------------------------------- MODULE Baton -------------------------------
(***************************************************************************)
(* Leader election on one Redis, with or without replicas: the rules R1 to *)
(* R8 of docs/guarantees.md, and the promises P1, P2, P4 and P5.           *)
(*                                                                         *)
(* What the store does in one atomic step is Campaign, Renew and Release;  *)
(* the Rust that they are an abstraction of is                             *)
(* src/protocol/reference/lease.rs and the Lua in src/store/redis/scripts. *)
(* What a sidecar does is Ask, Extend, Drain, GiveBack, GiveUp and         *)
(* Answered (src/protocol/election). What befalls them is at the end, each *)
(* with a name in Faults and all within FaultsMax; no fault is that a      *)
(* message takes its time, that a replica is copied to or is not, and that *)
(* it takes over from a master that died.                                  *)
(*                                                                         *)
(* Each rule is a name that Off may contain; On("name") is where it is:    *)
(*   R1  "repeat"      a request repeated after its lease has run out, or  *)
(*                     under a guard, is a new campaign (Campaign)         *)
(*       "attempts"    numbers of campaigns never repeat (Ask)             *)
(*   R2  "sent"        a deadline counts from the sending (Answered)       *)
(*   R3  "floor"       a token is above what its candidate has seen        *)
(*       "clock"       and above the clock (NextToken)                     *)
(*   R4  "reassert"    an incumbent puts its lost lease back (Renew)       *)
(*       "since"       but not where somebody was granted the role since,  *)
(*                     be it with a smaller token (Renew)                  *)
(*   R5  "generation"  another server than the record's is noticed         *)
(*       "replid"      also one that was promoted without a restart        *)
(*       "empty"       a new record is shut for a lease (NewRecord)        *)
(*       "longest"     a guard lasts for the longer of two leases (Span)   *)
(*       "until"       a lease that went before its end is noticed         *)
(*       "still"       nobody is granted a role that was not released who  *)
(*                     has not known its record to stand still for a lease *)
(*   R6  "acks"        what no replica has acknowledged does not count     *)
(*       "confirm"     a grant is asked about once more (Confirm)          *)
(*       "syncs"       a replica that comes begins a generation            *)
(*   R7  "own"         nobody releases another's lease (Release)           *)
(*       "promises"    nor before the promises have run out (GiveBack)     *)
(*   R8  "heard"       grants, renewals and releases are published         *)
(*                                                                         *)
(* Time is in ticks, and all that ends is a number that counts down. The   *)
(* clocks of two machines differ by at most 1 % each; the stepDownMargin   *)
(* is for that. Here it is taken to be eaten up completely: an incumbent   *)
(* acts for a whole lease after its request was sent, and everybody else   *)
(* waits for a lease. An app acts on every promise to its end, which is    *)
(* the end of the term or earlier: acts is both.                           *)
(*                                                                         *)
(* A clock that was never set back is ahead of every token that any server *)
(* gave, one a microsecond at most, and of every count: NextToken takes    *)
(* the greatest for it, and Fresh goes above all. One that was set back,   *)
(* or is of a server that was put in another's place, is behind them all.  *)
(*                                                                         *)
(* Built in, without a switch: a campaign that is repeated while its lease *)
(* stands has the same token (Campaign, R1); a task that a reload brings   *)
(* back waits (Reload, R1); a term past its deadline is over (Tick, R2);   *)
(* no answer is neither yes nor no (GiveUp, R2); a renewal puts nothing    *)
(* back after a release or over a greater token (Renew, R4), and may ask   *)
(* nobody where all is as it was (LeftBy, R5); a guard begins a watch,     *)
(* which the incumbent's renewal ends (Watched, Renew, R5); a record that  *)
(* stood still outweighs the time to live (Campaign, R8); a renewal that   *)
(* is sent counts (Extend, R8); what a step back adds is cut (Campaign,    *)
(* R8).                                                                    *)
(*                                                                         *)
(* Left out, because every promise here holds without it: R5 regression    *)
(* and what a candidate knows of the end of a lease (R5 vanished; both are *)
(* in BatonTrace.tla), where scripts may not ask who the server is (R5),   *)
(* when candidates look and who listens (R8), R8's care after a step of    *)
(* the clock, who makes way (R1). They end a doubt sooner, or help where   *)
(* R5 "generation" is not to be had. Left out, because one promise is not  *)
(* of the kind that a state shows: that somebody leads in the end. Left    *)
(* out for size: more than two sidecars, two servers and a replica that    *)
(* only acknowledges; news that come late (here they come at once or       *)
(* never); departures (R7, a process that ended is released by another; in *)
(* BatonTrace.tla); what a replica forgets that crashes (R6). Left out,    *)
(* because ticks and small numbers have no place for it: a clock that      *)
(* stands still while its machine sleeps (R2), tokens below 2^53 (R3).     *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Replicas,       \* the app's replicas, each with a sidecar
    Servers,        \* the Redis servers that may be a master
    Lease,          \* how long a lease is, in ticks
    Short,          \* the replicas that are configured with half of that
    Acks,           \* R6: how many replicas of Redis shall acknowledge, 0 or 1
    Used,           \* the role was led once and given back, and all servers know that; else nobody has heard of it
    Prompt,         \* nothing is lost or late, and nobody hesitates: the world in which P4 can be seen
    Off,            \* the rules that are switched off
    Faults,         \* what may befall
    FaultsMax,      \* how many times all together
    Terms,          \* no greater token is given
    Renewals,       \* no record counts further after it began to be watched
    Requests,       \* how many requests of a sidecar are on their way at most
    Steps           \* how many steps a behaviour has at most that is looked at

ASSUME Off \subseteq {"attempts", "repeat", "sent", "floor", "clock", "reassert", "since", "generation", "replid",
                      "empty", "longest", "until", "still", "acks", "confirm", "syncs", "own", "promises", "heard"}

On(rule) == rule \notin Off

VARIABLES
    db,         \* what each server keeps of the role: its lease and its record
    srv,        \* what each server is
    swing,      \* whom the replica of Redis follows that is never promoted, and only acknowledges
    proc,       \* the sidecars, and until when their apps act
    net,        \* requests on their way, and their answers
    top,        \* the greatest token of a term
    given,      \* the greatest token that any server gave
    marks,      \* how many times a record's count has leapt to a number that nobody can have counted to
    faults,     \* how many faults there were
    broken      \* the promises that were broken, of those that no state shows

vars == <<db, srv, swing, proc, net, top, given, marks, faults, broken>>

\* The master of the beginning.
First == CHOOSE s \in Servers : TRUE

LeaseOf(r) == IF r \in Short THEN Lease \div 2 ELSE Lease
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Less(a) == IF a > 0 THEN a - 1 ELSE 0

Fail(promise) == broken' = broken \cup {promise}
Befalls(fault) == fault \in Faults /\ faults < FaultsMax /\ faults' = faults + 1

Nobody == <<>>
NoLease == [left |-> 0]
NoRecord == [token |-> 0]
Nothing == [lease |-> NoLease, rec |-> NoRecord]
HasLease(d) == d.lease.left > 0
HasRecord(d) == d.rec # NoRecord

-----------------------------------------------------------------------------
(* The store. *)

\* R5: what makes this server another than the one that wrote a record.
Generation(s) ==
    <<s, srv[s].run, IF On("replid") THEN srv[s].promotion ELSE 0, IF On("syncs") /\ Acks > 0 THEN srv[s].syncs ELSE 0>>

\* By how much a lease may end before the moment that its record remembers: nothing here.
Rounding == 0

\* All that a clock that is behind can count to is less.
Ahead == 1000

\* A count above this one that nobody has come to elsewhere: the server's clock, or where that is behind, the count.
Fresh(s, count) == (IF srv[s].ahead \/ count >= Ahead THEN Ahead ELSE 0) + 10 * (marks + 1)

NewRecord(s, span) ==
    [token |-> 0, count |-> Fresh(s, 0), released |-> FALSE, writer |-> Nobody, span |-> span, until |-> 0,
     gen |-> Generation(s), guard |-> IF On("empty") THEN span ELSE 0]

\* R5 still: whatever anybody knows of this record is from before.
Watched(s, rec) == IF On("still") THEN [rec EXCEPT !.writer = Nobody, !.count = Fresh(s, @)] ELSE rec

\* A guard that stands is not made longer. (None is 0 here. Where clocks are real one that is over is below 0.)
Shut(rec, span) == IF rec.guard > 0 THEN rec ELSE [rec EXCEPT !.guard = span, !.span = Max(@, span)]

\* R5: how long a guard lasts that this request begins.
Span(rec, asked) == IF On("longest") THEN Max(rec.span, asked) ELSE asked

\* What each step does first: R5 empty and generation. d: what server s keeps.
Prepared(s, d, asked) ==
    IF ~HasRecord(d) THEN [d EXCEPT !.rec = NewRecord(s, asked)]
    ELSE IF ~On("generation") \/ d.rec.gen = Generation(s) THEN d
    ELSE LET span == Span(d.rec, asked)
             noticed == [d.rec EXCEPT !.guard = Max(@, span), !.gen = Generation(s), !.span = Max(@, span)]
         IN  [d EXCEPT !.rec = Watched(s, noticed)]

\* Which state of a record this is.
Session(writer) == IF writer = Nobody THEN Nobody ELSE writer.ses
Version(rec) == [token |-> rec.token, count |-> rec.count, writer |-> Session(rec.writer)]
Unknown == [token |-> 0]

\* Who asks has known the record to be as it is for so long, when it asked.
StoodStill(rec, m, span) ==
    /\ m.seen # Unknown
    /\ m.seen.token = rec.token /\ m.seen.count = rec.count
    /\ rec.writer = Nobody \/ m.seen.writer = rec.writer.ses
    /\ m.still >= span

Extended(rec, lease) ==
    [rec EXCEPT !.span = IF rec.guard > 0 THEN Max(@, lease) ELSE lease, !.until = lease, !.guard = Max(@, 0)]

\* Sessions are never used again, and campaigns of a session are numbered.
Me(m) == [ses |-> m.ses, att |-> m.att]

\* R3.
NextToken(s, rec, m) ==
    LET floor == IF On("floor") THEN m.floor ELSE 0
        clock == IF On("clock") /\ srv[s].ahead THEN given ELSE 0
    IN  1 + Max(rec.token, Max(floor, clock))

Granted(s, d, rec, m, token) ==
    LET lease == LeaseOf(m.r)
        r2 == [Extended(rec, lease) EXCEPT !.token = token, !.count = @ + 1, !.released = FALSE, !.writer = Me(m)]
    IN  [d |-> [lease |-> [left |-> lease, span |-> lease, who |-> Me(m), token |-> token], rec |-> r2],
         reply |-> [is |-> "granted", token |-> token, version |-> Version(r2)]]

Refused(d, rec, is) ==
    [d |-> [d EXCEPT !.rec = rec], reply |-> [is |-> is, token |-> rec.token, version |-> Version(rec)]]

\* R1, R3 and R5: one atomic step.
Campaign(s, before, m) ==
    LET asked == LeaseOf(m.r)
        p == Prepared(s, before, asked)
        span == Span(p.rec, asked)
        \* What a step of the clock back has stretched is cut.
        cut == [p.rec EXCEPT !.guard = Min(@, span), !.until = Min(@, span)]
        d == [lease |-> IF HasLease(p) THEN [p.lease EXCEPT !.left = Min(@, p.lease.span)] ELSE NoLease, rec |-> cut]
        mine == HasLease(d) /\ d.lease.who = Me(m)
        sameSession == HasLease(d) /\ d.lease.who.ses = m.ses
        lastIsMine == cut.writer # Nobody /\ cut.writer.ses = m.ses
        vanished == /\ On("until") /\ ~HasLease(d) /\ ~cut.released
                    /\ cut.writer # Nobody /\ cut.writer.ses # m.ses
                    /\ cut.until > Rounding
                    /\ ~(On("still") /\ StoodStill(cut, m, span))
        guarded == IF vanished THEN Shut(cut, cut.until) ELSE cut
        free == guarded.released /\ guarded.writer # Nobody
        own == guarded.writer # Nobody /\ guarded.writer.ses = m.ses
        watching == On("still") /\ ~free /\ ~own /\ ~StoodStill(guarded, m, span)
        anew == IF guarded.guard > 0 THEN Refused(d, guarded, "guarded")
                ELSE IF watching THEN Refused(d, guarded, "watch")
                ELSE Granted(s, d, guarded, m, NextToken(s, guarded, m))
    IN  IF mine /\ (~On("repeat") \/ (cut.writer = Me(m) /\ ~(cut.guard > 0)))
        THEN LET rec == [Extended(cut, asked) EXCEPT !.count = @ + 1]
             IN  [d |-> [lease |-> [d.lease EXCEPT !.left = asked, !.span = asked], rec |-> rec],
                  reply |-> [is |-> "granted", token |-> d.lease.token, version |-> Version(rec)]]
        ELSE IF sameSession /\ d.lease.who.att > m.att THEN Refused(d, cut, "stale")
        ELSE IF HasLease(d) /\ ~sameSession /\ ~StoodStill(cut, m, d.lease.span)
        THEN Refused(d, cut, "held")
        ELSE IF ~HasLease(d) /\ ~On("repeat") /\ cut.writer = Me(m) /\ ~cut.released
        THEN Granted(s, d, cut, m, cut.token)
        ELSE IF ~HasLease(d) /\ lastIsMine /\ (cut.writer.att > m.att \/ (cut.writer.att = m.att /\ cut.released))
        THEN Refused(d, cut, "stale")
        ELSE anew

\* R5: a renewal that finds all as it left it need not ask of which generation the server is.
LeftBy(d, m) ==
    /\ Acks = 0 /\ HasLease(d) /\ HasRecord(d) /\ d.lease.who = Me(m) /\ d.rec.writer = Me(m)
    /\ d.lease.token = m.token /\ d.rec.token = m.token /\ d.rec.count = m.count
    /\ d.rec.span = LeaseOf(m.r) /\ d.rec.guard = 0

\* R4: one atomic step. It notices another generation, or does not.
Renew(s, d, m, notices) ==
    LET lease == LeaseOf(m.r)
        p == IF notices THEN Prepared(s, d, lease) ELSE d
        watched == p.rec.writer = Nobody \/ ~On("since") \/ ~On("still") \/ ~On("generation")
        mine == HasLease(p) /\ p.lease.who = Me(m) /\ p.lease.token = m.token
        again == /\ ~mine /\ On("reassert")
                 /\ \/ ~HasLease(p) /\ p.rec.token = m.token /\ ~p.rec.released
                    \/ p.rec.token < m.token /\ watched
        doubted == m.count < p.rec.count \/ p.rec.guard > 0
        word == ~(On("still") /\ doubted)
        r1 == [Extended(p.rec, lease) EXCEPT !.count = Max(@, m.count) + 1, !.token = Max(@, m.token)]
        \* Who was answered since a watch began has the last word again; who was not puts the lease back all the same.
        r2 == IF word \/ again THEN [r1 EXCEPT !.released = FALSE, !.writer = IF word THEN Me(m) ELSE Nobody] ELSE r1
    IN  IF mine \/ again
        THEN [d |-> [lease |-> [left |-> lease, span |-> lease, who |-> Me(m), token |-> m.token], rec |-> r2],
              reply |-> [is |-> "renewed", token |-> m.token, version |-> [Version(r2) EXCEPT !.writer = m.ses]]]
        ELSE [d |-> p, reply |-> [is |-> "lost", token |-> p.rec.token, version |-> Version(p.rec)]]

\* R7: one atomic step.
IsOf(lease, m) == lease.who = Me(m) /\ lease.token = m.token

Release(s, d, m) ==
    LET mine == HasLease(d) /\ (~On("own") \/ IsOf(d.lease, m))
        rec == IF HasRecord(d) THEN d.rec ELSE [NewRecord(s, 0) EXCEPT !.gen = <<>>, !.guard = 0]
        r2 == [rec EXCEPT !.count = @ + 1, !.released = TRUE, !.token = Max(@, d.lease.token)]
    IN  IF mine
        THEN [d |-> [lease |-> NoLease, rec |-> r2],
              reply |-> [is |-> "released", token |-> m.token, version |-> Version(r2)]]
        ELSE [d |-> d, reply |-> [is |-> "nothing", token |-> m.token, version |-> Unknown]]

-----------------------------------------------------------------------------
(* The sidecars. *)

Masters == {s \in Servers : srv[s].role = "master"}

NewProc(r, n, acts) ==
    [up |-> TRUE, ses |-> <<r, n>>, att |-> 0, phase |-> "candidate", waits |-> FALSE, again |-> FALSE,
     token |-> 0, count |-> 0, acts |-> acts, floor |-> 0, seen |-> Unknown, still |-> 0, called |-> FALSE]

\* The attempts of a session that anybody may still refer to. (A process counts on; that it may take a number again that
\* nobody refers to keeps the states few.)
Attempts(ses) ==
    {db[s].lease.who.att : s \in {s \in Servers : HasLease(db[s]) /\ db[s].lease.who.ses = ses}}
    \cup {db[s].rec.writer.att : s \in {s \in Servers : HasRecord(db[s]) /\ Session(db[s].rec.writer) = ses}}
    \cup {m.att : m \in {m \in net : m.ses = ses}}

NextAttempt(ses) == CHOOSE n \in 1..20 : (\A a \in Attempts(ses) : a < n) /\ (n = 1 \/ (n - 1) \in Attempts(ses))

Ask(r) ==
    /\ proc[r].up /\ proc[r].phase = "candidate" /\ ~proc[r].waits
    /\ Cardinality({m \in net : m.r = r}) < Requests
    /\ \E s \in Masters :
        LET next == IF On("attempts") THEN NextAttempt(proc[r].ses) ELSE proc[r].att + 1
            att == IF proc[r].again THEN proc[r].att ELSE next
            m == [op |-> "campaign", st |-> "sent", to |-> s, r |-> r, ses |-> proc[r].ses, att |-> att,
                  floor |-> proc[r].floor, seen |-> proc[r].seen, still |-> proc[r].still, acts |-> LeaseOf(r)]
        IN  /\ net' = net \cup {m}
            /\ proc' = [proc EXCEPT ![r].att = att, ![r].waits = TRUE, ![r].again = FALSE, ![r].called = FALSE]
    /\ UNCHANGED <<db, srv, swing, top, given, marks, faults, broken>>

Extend(r) ==
    /\ proc[r].up /\ proc[r].phase \in {"leading", "draining"} /\ proc[r].acts > 0
    /\ ~\E m \in net : m.r = r /\ m.op = "renew"
    /\ Cardinality({m \in net : m.r = r}) < Requests
    /\ proc[r].acts < LeaseOf(r) /\ proc[r].count % 10 < Renewals
    /\ \E s \in Masters :
        net' = net \cup {[op |-> "renew", st |-> "sent", to |-> s, r |-> r, ses |-> proc[r].ses, att |-> proc[r].att,
                          token |-> proc[r].token, count |-> proc[r].count, acts |-> LeaseOf(r)]}
    /\ proc' = [proc EXCEPT ![r].count = @ + 1]
    /\ UNCHANGED <<db, srv, swing, top, given, marks, faults, broken>>

\* SIGTERM, a resign, or the end of the last connection by which an app shows that it lives: no answer from now on.
Drain(r) ==
    /\ proc[r].phase = "leading"
    /\ proc' = [proc EXCEPT ![r].phase = "draining"]
    /\ UNCHANGED <<db, srv, swing, net, top, given, marks, faults, broken>>

\* Nobody acts any more: the promises have run out, the app says that it has stopped, or it has died and was alone.
GiveBack(r) ==
    /\ proc[r].up /\ proc[r].phase = "draining"
    /\ Cardinality({m \in net : m.r = r}) < Requests
    /\ \E s \in Masters :
        net' = net \cup {[op |-> "release", st |-> "sent", to |-> s, r |-> r, ses |-> proc[r].ses, att |-> proc[r].att,
                          token |-> proc[r].token, acts |-> 0]}
    /\ proc' = [proc EXCEPT ![r].phase = "candidate", ![r].acts = IF On("promises") THEN 0 ELSE @]
    /\ UNCHANGED <<db, srv, swing, top, given, marks, faults, broken>>

\* No answer in time: the request may be executed, has been or never will be.
GiveUp(r) ==
    /\ proc[r].up /\ proc[r].phase = "candidate" /\ proc[r].waits /\ ~Prompt
    /\ proc' = [proc EXCEPT ![r].waits = FALSE, ![r].again = TRUE]
    /\ LET its == {m \in net : m.op = "campaign" /\ m.r = r /\ m.ses = proc[r].ses /\ m.att = proc[r].att} IN
        \/ net' = net \ its /\ (IF its = {} THEN UNCHANGED faults ELSE Befalls("lost"))
        \/ Befalls("late") /\ (\E m \in its : m.st = "sent") /\ UNCHANGED net
    /\ UNCHANGED <<db, srv, swing, top, given, marks, broken>>

\* Somebody still waits for the answer.
Awaits(m) ==
    LET p == proc[m.r] IN
    p.up /\ p.ses = m.ses /\ p.att = m.att /\ (m.op = "campaign" => p.phase = "candidate" /\ p.waits)

\* A request is never executed. (One of a campaign that is waited for: GiveUp.)
Lose(m) ==
    /\ m.st = "sent" /\ (m.op = "campaign" => ~Awaits(m))
    /\ IF m.op = "campaign" THEN UNCHANGED faults ELSE Befalls("lost")
    /\ net' = net \ {m}
    /\ UNCHANGED <<db, srv, swing, proc, top, given, marks, broken>>

\* What a candidate knows, and since when.
Learn(p, version) ==
    IF version = Unknown THEN p
    ELSE [p EXCEPT !.floor = Max(@, version.token), !.seen = version, !.still = IF p.seen = version THEN @ ELSE 0]

Step(s, d, m, notices) ==
    CASE m.op = "campaign" -> Campaign(s, d, m)
      [] m.op = "renew" -> Renew(s, d, m, notices)
      [] m.op = "release" -> Release(s, d, m)

\* R8: a candidate hears what was published. News of another that leads end an attempt whose answer is still out.
Hear(p, m, reply) ==
    IF reply.is = "released" THEN [Learn(p, reply.version) EXCEPT !.called = Prompt]
    ELSE [Learn(p, [reply.version EXCEPT !.writer = m.ses]) EXCEPT !.waits = FALSE, !.again = FALSE]

Execute(m) ==
    /\ m.st = "sent" /\ srv[m.to].role = "master"
    /\ \E notices \in IF m.op = "renew" /\ LeftBy(db[m.to], m) THEN BOOLEAN ELSE {TRUE} :
       LET step == Step(m.to, db[m.to], m, notices)
           reply == step.reply
           publishes == reply.is \in {"granted", "renewed", "released"} /\ On("heard")
           hears == {r \in Replicas \ {m.r} : publishes /\ proc[r].up /\ proc[r].phase = "candidate"}
           done == [st |-> "done", op |-> m.op, to |-> m.to, r |-> m.r, ses |-> m.ses, att |-> m.att, acts |-> m.acts,
                    reply |-> reply]
           p == proc[m.r]
           inVain == /\ reply.is = "lost" /\ given = m.token
                     /\ p.up /\ p.phase = "leading" /\ p.ses = m.ses /\ p.att = m.att /\ p.acts > 0
       IN  /\ reply.is = "granted" => reply.token <= Terms
           /\ HasRecord(step.d) => step.d.rec.count % 10 <= Renewals
           /\ db' = [db EXCEPT ![m.to] = step.d]
           /\ net' = (net \ {m}) \cup (IF m.op # "release" /\ Awaits(m) THEN {done} ELSE {})
           /\ given' = IF reply.is = "granted" THEN Max(given, reply.token) ELSE given
           /\ marks' = IF HasRecord(step.d) /\ step.d.rec.count % Ahead >= 10 * (marks + 1) THEN marks + 1 ELSE marks
           /\ \E heard \in IF Prompt THEN {hears} ELSE SUBSET hears :
                proc' = [r \in Replicas |-> IF r \in heard THEN Hear(proc[r], m, reply) ELSE proc[r]]
           \* P5: an incumbent that reaches the store before its deadline keeps its term, unless there is a later one.
           /\ IF inVain THEN Fail("P5") ELSE UNCHANGED broken
    /\ UNCHANGED <<srv, swing, top, faults>>

\* R6: WAIT. A replica acknowledges whoever it follows now.
Followers(s) == {t \in Servers : srv[t].role = "replica" /\ srv[t].follows = s}

Acknowledge(m) ==
    /\ Acks > 0 /\ m.st = "done"
    /\ \/ swing = m.to /\ UNCHANGED db
       \/ \E t \in Followers(m.to) : db' = [db EXCEPT ![t] = db[m.to]]
    /\ net' = (net \ {m}) \cup {[m EXCEPT !.st = "acked"]}
    /\ UNCHANGED <<srv, swing, proc, top, given, marks, faults, broken>>

\* R6: a grant is asked about once more.
Confirms(s, d, token) ==
    /\ HasRecord(d) /\ d.rec.token = token /\ d.rec.gen = Generation(s)
    /\ d.rec.writer # Nobody /\ ~(d.rec.guard > 0)

Confirm(m) ==
    /\ m.st = "acked" /\ m.reply.is = "granted" /\ On("confirm")
    /\ Confirms(m.to, db[m.to], m.reply.token)
    /\ net' = (net \ {m}) \cup {[m EXCEPT !.st = "sure"]}
    /\ UNCHANGED <<db, srv, swing, proc, top, given, marks, faults, broken>>

Counts(m) ==
    \/ (Acks = 0 \/ ~On("acks")) /\ m.st = "done"
    \/ m.st # "sent" /\ m.reply.is \notin {"granted", "renewed"}
    \/ m.st = "acked" /\ (m.reply.is = "renewed" \/ ~On("confirm"))
    \/ m.st = "sure"

Rests(p) == [p EXCEPT !.waits = FALSE, !.again = FALSE]

Answered(m) ==
    /\ Counts(m) /\ proc[m.r].up /\ proc[m.r].ses = m.ses /\ proc[m.r].att = m.att
    /\ net' = net \ {m}
    /\ LET r == m.r
           p == proc[r]
           learnt == Learn(p, m.reply.version)
           acts == IF On("sent") THEN m.acts ELSE LeaseOf(r)
           waits == m.op = "campaign" /\ p.phase = "candidate" /\ p.waits
           \* A token that is not above all that it has seen is of a store that has forgotten.
           starts == waits /\ m.reply.is = "granted" /\ acts > 0 /\ (m.reply.token > p.floor \/ ~On("floor"))
           next == CASE starts -> [Rests(learnt) EXCEPT !.phase = "leading", !.token = m.reply.token,
                                    !.count = m.reply.version.count, !.acts = Max(@, acts)]
                     [] waits /\ ~starts -> Rests(learnt)
                     [] m.op = "renew" /\ p.phase \in {"leading", "draining"} /\ m.reply.is = "lost" ->
                            [Rests(learnt) EXCEPT !.phase = "candidate"]
                     [] m.op = "renew" /\ p.phase = "leading" /\ m.reply.is = "renewed" ->
                            [learnt EXCEPT !.acts = Max(@, acts), !.count = Max(@, m.reply.version.count)]
                     [] m.op = "renew" /\ p.phase = "draining" /\ m.reply.is = "renewed" -> learnt
                     [] OTHER -> p
       IN  /\ proc' = [proc EXCEPT ![r] = next]
           /\ top' = IF starts THEN Max(top, m.reply.token) ELSE top
           /\ IF starts /\ m.reply.token <= top THEN Fail("P2") ELSE UNCHANGED broken
    /\ UNCHANGED <<db, srv, swing, given, marks, faults>>

\* Nobody waits for it any more.
Forget(m) ==
    /\ m.st # "sent"
    /\ ~Awaits(m)
    /\ net' = net \ {m}
    /\ UNCHANGED <<db, srv, swing, proc, top, given, marks, faults, broken>>

-----------------------------------------------------------------------------
(* What befalls. *)

\* A lease that nobody renews is gone when it has counted down, and a term past its deadline is over.
Tick ==
    /\ Prompt => net = {} /\ \A r \in Replicas : ~proc[r].called /\ proc[r].phase # "draining"
    /\ db' = [s \in Servers |->
        [lease |-> IF db[s].lease.left > 1 THEN [db[s].lease EXCEPT !.left = @ - 1] ELSE NoLease,
         rec |-> IF HasRecord(db[s]) THEN [db[s].rec EXCEPT !.guard = Less(@), !.until = Less(@)] ELSE NoRecord]]
    /\ proc' = [r \in Replicas |-> [proc[r] EXCEPT
        !.acts = Less(@),
        !.phase = IF @ = "leading" /\ proc[r].acts <= 1 THEN "candidate" ELSE @,
        !.still = IF proc[r].seen = Unknown THEN 0 ELSE Min(@ + 1, Lease)]]
    /\ net' = {[m EXCEPT !.acts = Less(@)] : m \in net}
    \* P4: nobody lets time pass while the role lies open that somebody gave back.
    /\ LET d == db[First] IN
       IF /\ Prompt /\ faults = 0 /\ HasRecord(d) /\ d.rec.released /\ d.rec.guard = 0 /\ ~HasLease(d)
          /\ \E r \in Replicas : proc[r].up /\ Session(d.rec.writer) # proc[r].ses
       THEN Fail("P4") ELSE UNCHANGED broken
    /\ UNCHANGED <<srv, swing, top, given, marks, faults>>

\* The connections to a server that ends are cut: what it has not answered by then it never will.
Uncut(s) == {m \in net : m.to # s \/ m.st = "sure" \/ (Acks = 0 /\ m.st = "done")}

\* The process is killed and starts anew; its app acts on.
Kill(r) ==
    /\ Befalls("kill") /\ proc[r].up
    /\ proc' = [proc EXCEPT ![r] = NewProc(r, proc[r].ses[2] + 1, proc[r].acts)]
    /\ UNCHANGED <<db, srv, swing, net, top, given, marks, broken>>

\* A reload removes the role and adds it again: another task of the same session, which knows nothing.
Reload(r) ==
    /\ proc[r].up /\ proc[r].phase = "candidate" /\ ~proc[r].waits /\ Befalls("reload")
    /\ proc' = [proc EXCEPT ![r].att = 0, ![r].again = FALSE, ![r].floor = 0, ![r].seen = Unknown, ![r].still = 0]
    /\ UNCHANGED <<db, srv, swing, net, top, given, marks, broken>>

\* A server starts anew: with its data, or without.
Restart(s) ==
    /\ srv[s].role = "master"
    /\ \/ Befalls("restart") /\ UNCHANGED db
       \/ Befalls("loss of data") /\ db' = [db EXCEPT ![s] = Nothing]
    /\ srv' = [srv EXCEPT ![s].run = @ + 1]
    /\ net' = Uncut(s)
    /\ UNCHANGED <<swing, proc, top, given, marks, broken>>

\* Another server is put in its place, which has none of its data, and whose clock is behind.
Replace(s) ==
    /\ Befalls("replaced") /\ srv[s].role = "master" /\ db' = [db EXCEPT ![s] = Nothing]
    /\ srv' = [srv EXCEPT ![s].run = @ + 1, ![s].ahead = FALSE]
    /\ net' = Uncut(s)
    /\ UNCHANGED <<swing, proc, top, given, marks, broken>>

Flush(s) ==
    /\ Befalls("flush") /\ srv[s].role = "master" /\ db' = [db EXCEPT ![s] = Nothing]
    /\ UNCHANGED <<srv, swing, proc, net, top, given, marks, broken>>

Evict(s) ==
    /\ Befalls("evict") /\ srv[s].role = "master" /\ HasLease(db[s]) /\ db' = [db EXCEPT ![s].lease = NoLease]
    /\ UNCHANGED <<srv, swing, proc, net, top, given, marks, broken>>

\* The server's clock is stepped, forwards beyond everything, or back by a lease.
SetClock(s) ==
    /\ Befalls("clock") /\ srv[s].role = "master" /\ HasRecord(db[s])
    /\ LET d == db[s]
           forwards == [lease |-> NoLease, rec |-> [d.rec EXCEPT !.guard = 0, !.until = 0]]
           Later(left) == IF left > 0 THEN left + Lease ELSE 0
           back == [lease |-> IF HasLease(d) THEN [d.lease EXCEPT !.left = Later(@)] ELSE NoLease,
                    rec |-> [d.rec EXCEPT !.guard = Later(@), !.until = Later(@)]]
       IN  \/ db' = [db EXCEPT ![s] = forwards] /\ UNCHANGED srv
           \/ db' = [db EXCEPT ![s] = back] /\ srv' = [srv EXCEPT ![s].ahead = FALSE]
    /\ UNCHANGED <<swing, proc, net, top, given, marks, broken>>

\* Replication, some time later.
Copy(s, t) ==
    /\ t \in Followers(s) /\ srv[s].role = "master" /\ db[t] # db[s]
    /\ db' = [db EXCEPT ![t] = db[s]]
    /\ UNCHANGED <<srv, swing, proc, net, top, given, marks, faults, broken>>

\* A master dies.
Crash(s) ==
    /\ Befalls("failover") /\ srv[s].role = "master" /\ \E t \in Servers : srv[t].role = "replica"
    /\ srv' = [srv EXCEPT ![s].role = "down"]
    /\ net' = Uncut(s)
    /\ UNCHANGED <<db, swing, proc, top, given, marks, broken>>

\* A replica takes over, with what it has: of a master that died; or, in a split, of one that lives.
Promote(t) ==
    /\ srv[t].role = "replica"
    /\ \/ /\ \A s \in Servers : srv[s].role # "master"
          /\ UNCHANGED faults
       \/ Befalls("split")
    /\ srv' = [srv EXCEPT ![t].role = "master", ![t].promotion = @ + 1]
    /\ UNCHANGED <<db, swing, proc, net, top, given, marks, broken>>

\* An old master follows a new one: with all of its data (a synchronisation, which the new one counts).
Demote(s, t) ==
    /\ s # t /\ srv[t].role = "master" /\ srv[t].promotion > 0
    /\ \/ srv[s].role = "down"
       \/ srv[s].role = "master" /\ "split" \in Faults
    /\ srv' = [srv EXCEPT ![s].role = "replica", ![s].follows = t, ![t].syncs = @ + 1,
                          ![s].run = IF srv[s].role = "down" THEN @ + 1 ELSE @]
    /\ db' = [db EXCEPT ![s] = db[t]]
    /\ net' = Uncut(s)
    /\ UNCHANGED <<swing, proc, top, given, marks, faults, broken>>

\* A master and its replica change sides, in the processes that they are: what the old one has it throws away.
Swap(s, t) ==
    /\ Befalls("swap") /\ srv[s].role = "master" /\ t \in Followers(s)
    /\ srv' = [srv EXCEPT ![s].role = "replica", ![s].follows = t,
                          ![t].role = "master", ![t].promotion = @ + 1, ![t].syncs = @ + 1]
    /\ db' = [db EXCEPT ![s] = db[t]]
    /\ net' = Uncut(s)
    /\ UNCHANGED <<swing, proc, top, given, marks, broken>>

\* The replica that only acknowledges follows another master: who counts its acknowledgements counts this, too.
Swing(t) ==
    /\ swing # t /\ srv[t].role = "master" /\ Acks > 0
    /\ Befalls("swing")
    /\ swing' = t /\ srv' = [srv EXCEPT ![t].syncs = @ + 1]
    /\ UNCHANGED <<db, proc, net, top, given, marks, broken>>

-----------------------------------------------------------------------------
Symmetry == {p \in Permutations(Replicas) : {p[r] : r \in Short} = Short}

\* As somebody has left it who is none of the replicas.
GivenBack ==
    [lease |-> NoLease,
     rec |-> [token |-> 1, count |-> Ahead, released |-> TRUE, writer |-> [ses |-> <<"before">>, att |-> 1],
              span |-> Lease, until |-> 0, gen |-> <<First, 0, 0, 0>>, guard |-> 0]]

Init ==
    /\ db = [s \in Servers |-> IF Used THEN GivenBack ELSE Nothing]
    /\ srv = [s \in Servers |-> [role |-> IF s = First THEN "master" ELSE "replica", follows |-> First, run |-> 0,
                                 promotion |-> 0, syncs |-> 0, ahead |-> TRUE]]
    /\ swing = First
    /\ proc = [r \in Replicas |-> NewProc(r, 0, 0)]
    /\ top = db[First].rec.token /\ given = db[First].rec.token
    /\ net = {} /\ marks = 0 /\ faults = 0 /\ broken = {}

Next ==
    \/ Tick
    \/ \E r \in Replicas : Ask(r) \/ Extend(r) \/ Drain(r) \/ GiveBack(r) \/ GiveUp(r) \/ Kill(r) \/ Reload(r)
    \/ \E m \in net : Lose(m) \/ Execute(m) \/ Acknowledge(m) \/ Confirm(m) \/ Answered(m) \/ Forget(m)
    \/ \E s \in Servers : Restart(s) \/ Replace(s) \/ Flush(s) \/ Evict(s) \/ SetClock(s)
    \/ \E s \in Servers : Crash(s) \/ Promote(s) \/ Swing(s)
    \/ \E s, t \in Servers : Copy(s, t) \/ Demote(s, t) \/ Swap(s, t)

Spec == Init /\ [][Next]_vars

\* A bound. (Where several cores look, a way that is found first may be longer than the shortest, by a step or so.)
Within == TLCGet("level") <= Steps

-----------------------------------------------------------------------------
\* At most one acts as leader.
P1 == \A r, q \in Replicas : proc[r].acts > 0 /\ proc[q].acts > 0 => r = q
P2 == "P2" \notin broken
P4 == "P4" \notin broken
P5 == "P5" \notin broken
=============================================================================
