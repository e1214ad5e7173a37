-------------------------------- MODULE Locks --------------------------------
(* One lock, or semaphore, of one name on one Redis: who may act on it, under which tokens, and what a fault can do to
   that.  The rules have the numbers of docs/guarantees.md; what they are for locks is in its section "Locks" and in
   docs/locks.md.  The code that this is about: src/protocol/reference/locks.rs and lock_cell.rs (the store's side),
   src/protocol/locks/turn.rs, and the driver's src/locks/acquire.rs, held.rs, turns.rs, extend.rs, release.rs.

   THE WORLD.  Two sidecars, "s" and "t"; each client asks through one of them (those in Theirs through "t").  A request
   has an id, <<client, number>>; what it is granted, its *hold*, has the same id, a token and a lease of its own.
   Clients in Mates have one owner, who may have the lock several times (re-entrant); a client that is in Fair queues
   and is not to be overtaken.  A grant to a plain request comes with a block of tokens where others wait at the same
   sidecar: a *turn*.  Then the lock goes from client to client (PassOn) without a word to the store, which knows it
   under the id of the first, the *seat*, until an extension or a release tells it more.

   TIME is ticks: everything that ends is a countdown.  A promise is counted from the sending of the request and lasts
   for the whole lease, which is the worst that clocks may do: the two hundredths that a promise is shorter in the code
   are taken to be eaten up by the clocks' difference.  No message has a bound on its time; an answer may be lost at
   any time (GiveUp), at nobody's cost.

   THE RULES, each a switch; `Off` is the set of those that are switched off.
     R1 "repeat"      a hold is named by its id; without it the store counts, by owner       Acquire, Find, Release
        "longest"     an extension makes no promise shorter that was given before            Extended
        "named"       a hold that its owner names to take the lock again is not passed on    Ask
        "shut"        under a guard nobody takes again what the store believes to stand      Acquire
        "intime"      nothing is executed after its sender has given it up                   MayExecute
        "connection"  what is on its way to a server that is started anew is lost            Restart
     R2 "sent"        a promise is counted from the sending of the request                   Answered
        "lapsed"      a promise that is over is over, though an extension succeeds           Answered
        "seat"        who is handed the lock in a turn is promised what is left of the seat  PassOn
     R3 "floor"       the greatest token that a sidecar saw                                  NextToken
        "kept"        the greatest token of any name, which outlives the record of a name    NextToken
        "clock"       the store's clock                                                      NextToken
        "block"       the store counts all tokens of a block as given                        Acquire
     R4 "reassert"    an extension puts back what the store has forgotten                    MayReturn
        "over"        also over the hold of an earlier holder                                MayReturn
        "since"       and not if anybody came since                                          MayReturn
     R5 "generation"  another run of the server: nobody new for `Guard` ticks                Prepared
        "empty"       no record at all, on a server that is younger than the guard           Prepared
     R7 "own"         a release names its hold, and frees no other                           Release
        "ours"        in a turn the hold is its sidecar's to change, and nobody else's       Find
        "gone"        a hold that has gone on in its turn is not given back a second time    Again
     "fair"           nobody overtakes a fair request that is queued                         Acquire
     "turns"          no turn begins where there have been fair requests                     Acquire

   THE FAULTS (`Faults`; at most `FaultsMax` of them in a run): "kill" a sidecar, whose clients act on what they were
   promised; "gone" a client that leaves while it waits; "late" a request that is executed after its sender has given it
   up; "restart" of the store with its data, "loss of data" without, "older" with an earlier save (or a replica that
   lagged takes over); "flush" FLUSHALL; "clock" stepped back by more than all leases; "forgotten" the record of a name
   that nobody uses; "again" a release is sent again by who has given the lock on in its turn.

   THE PROMISES.  AtMost: no more than `Permits` holders act at once (P1 of a lock).  TokensRise from holder to holder
   (P2).  NoTokenTwice: none is granted again, blocks included.  NotLost: a promised lock is lost only to who came
   since. NotOvertaken: a fair request by nobody, by a grant, or by a turn that began when there had been
   one.  NotToTheGone: nothing is granted to who has left.

   With all rules on "flush" breaks AtMost: *empty* shuts a store only as long as its server is younger than the guard,
   so a server that has run for longer and is flushed is open at once.  "lapsed" is no rule of the driver, whose
   extension counts from its own sending; "connection" closes the same hole, as far as what is sent is lost with its
   connection. Two faults at once may cost TokensRise and NoTokenTwice: of lost data and a clock that is stepped back
   only a sidecar's floor is left, which does not know of what others were granted.

   LEFT OUT, for it touches no promise here: tickets of plain requests and wakes (when somebody asks again is free
   here, so all orders are covered); the 50 ms and 32 requests of a turn (a turn ends at any time, and lasts for as
   long as its block); how a release puts a lock back first.  And several names, `atLeast`, an operator's unlock,
   `appCheck`, R6; how soon the next one is told of a lock whose sidecar has died; that a semaphore remembers eight
   releases (here it remembers those that anybody may still name).  The store's clock is never stepped forwards,
   nothing is evicted: not promised for locks.  Two promises are looked at for one permit only: TokensRise, for two
   holders of a semaphore may hear of their grants in any order, and NotLost, for a permit is lost where the store
   cannot tell it from an older one. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Clients,        \* who asks
    Theirs,         \* those who ask through the second sidecar
    Mates,          \* those of one owner, at the first sidecar
    Fair,           \* one client that queues as a fair one, or none
    Queued,         \* whether there has been a fair request before
    Brief,          \* who extends for less than it was granted
    Permits,        \* 1 for a lock
    Lease, Guard,   \* in ticks
    Block,          \* the tokens of a turn
    Tokens,         \* a bound: so many are granted
    Requests,       \* a bound: so many messages of a client are on their way
    Steps,          \* a bound: so many steps has a behaviour
    Off, Faults, FaultsMax

ASSUME Off \subseteq {"repeat", "longest", "named", "shut", "intime", "sent", "seat", "floor", "kept", "clock", "block",
                      "reassert", "over", "since", "generation", "empty", "own", "ours", "gone", "fair", "turns",
                      "connection", "lapsed"}
ASSUME Faults \subseteq {"kill", "gone", "late", "restart", "loss of data", "older", "flush", "clock", "forgotten",
                         "again"}
ASSUME Theirs \subseteq Clients /\ Mates \subseteq Clients \ Theirs /\ Cardinality(Fair) <= 1

On(rule) == rule \notin Off

VARIABLES
    db,         \* what the store keeps
    saved,      \* an earlier save of it
    srv,        \* the server: for how long it is `young`; its clock is `ahead` of all tokens until it is stepped back
    cl,         \* the clients, as their sidecars know them
    side,       \* the sidecars: which run it is, and the greatest token it saw
    ghosts,     \* promises on which somebody may act whose sidecar has died, or who was told that it is lost
    net,        \* requests on their way, and answers
    given,      \* the greatest token that was granted, blocks included
    top,        \* the greatest token that anybody held
    faults,     \* how many faults there were
    broken      \* the promises that were broken

vars == <<db, saved, srv, cl, side, ghosts, net, given, top, faults, broken>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Less(a) == IF a > 0 THEN a - 1 ELSE 0

Sidecars == {"s", "t"}
Home(c) == IF c \in Theirs THEN "t" ELSE "s"
Session(w) == <<w, side[w].run>>
Owner(c) == IF c \in Mates THEN Mates ELSE {c}
None == <<>>
Id(c) == <<c, cl[c].n>>

Empty == [holds |-> {}, token |-> 0, ended |-> 0, released |-> {}, fair |-> FALSE, queued |-> {}, floor |-> 0,
          gen |-> "none", guard |-> 0]

-----------------------------------------------------------------------------
(* The store: each operator is one atomic step on what it keeps. *)

\* R5: what each step does first.  The guard of an empty store ends when its server is older than the guard.
Prepared(d) ==
    CASE d.gen = "same" -> [d EXCEPT !.guard = Min(@, Guard)]
      [] d.gen = "other" -> [d EXCEPT !.gen = "same", !.guard = IF On("generation") THEN Guard ELSE 0]
      [] OTHER -> [d EXCEPT !.gen = "same", !.guard = IF On("empty") THEN srv.young ELSE 0]

\* No lease is longer than it was granted for: one that seems so began before the clock was stepped back.
Tidied(d) == [d EXCEPT !.holds = {[h EXCEPT !.left = Min(@, Lease)] : h \in @}]

\* The hold of this id, or else of the seat: none or one.  R7: in a turn its own sidecar alone knows whose it is.
Find(d, m) ==
    LET mine(h) == ~h.turn \/ ~On("ours") \/ h.ses = m.ses
        of(id) == {h \in d.holds : h.id = id /\ mine(h)}
    IN  IF ~On("repeat") THEN {h \in d.holds : h.own = m.own}
        ELSE IF of(m.id) # {} THEN of(m.id) ELSE IF m.seat = None THEN {} ELSE of(m.seat)

Free(d) == Permits - Cardinality({h.token : h \in d.holds})

\* R3: above all that were.
NextToken(d, m) ==
    1 + Max(Max(d.token, IF On("kept") THEN d.floor ELSE 0),
            Max(IF On("floor") THEN m.floor ELSE 0, IF On("clock") /\ srv.ahead THEN given ELSE 0))

NewHold(m, token, left, turn) ==
    [id |-> m.id, ses |-> m.ses, own |-> m.own, token |-> token, left |-> left, turn |-> turn, count |-> 1]

Reply(d, is, token, tokens) == [d |-> d, is |-> is, token |-> token, tokens |-> tokens, new |-> FALSE]

Swap(holds, h, to) == (holds \ {h}) \cup {to}

\* R1 with R3 and R5.
Acquire(m) ==
    LET p == Prepared(Tidied(db))
        guarded == p.guard > 0 /\ On("shut")
        again == IF On("repeat") THEN {h \in p.holds : h.id = m.id} ELSE {h \in p.holds : h.own = m.own}
        beside == IF m.beside = None \/ Permits > 1 THEN {}
                  ELSE {h \in p.holds : h.id = m.beside.id /\ h.ses = m.ses}
        out == [p EXCEPT !.queued = @ \ {m.c}]
        \* R1: this very request was granted before, and its answer lost.
        repeated == CHOOSE h \in again : TRUE
        longer == [repeated EXCEPT !.left = Max(@, Lease), !.count = @ + (IF On("repeat") THEN 0 ELSE 1)]
        named == CHOOSE h \in beside : TRUE
        open == Free(p) > 0 /\ (On("fair") => Cardinality(p.queued \ {m.c}) < Free(p))
        token == NextToken(p, m)
        tokens == IF On("turns") /\ p.fair THEN 1 ELSE m.tokens
        last == token + tokens - 1
        counted == IF On("block") THEN last ELSE token
        new == [out EXCEPT !.holds = @ \cup {NewHold(m, token, Lease, tokens > 1)},
                           !.token = counted, !.floor = counted]
        queued == IF m.c \in Fair THEN [p EXCEPT !.queued = @ \cup {m.c}, !.fair = TRUE] ELSE p
    IN  IF m.id \in p.released THEN Reply(p, "held", 0, 0)
        ELSE IF ~guarded /\ again # {}
        THEN Reply([out EXCEPT !.holds = Swap(@, repeated, longer)], "granted", repeated.token,
                   IF repeated.turn /\ On("repeat") THEN Max(1, p.token - repeated.token + 1) ELSE 1)
        ELSE IF ~guarded /\ beside # {}
        THEN Reply([out EXCEPT !.holds = @ \cup {NewHold(m, named.token, Lease, FALSE)}], "granted", named.token, 1)
        ELSE IF p.guard > 0 \/ ~open THEN Reply(queued, "held", 0, 0)
        ELSE [Reply(new, "granted", token, tokens) EXCEPT !.new = TRUE]

\* R4: whether what is gone may be put back.
MayReturn(d, m) ==
    LET last(h) == IF h.turn /\ h.ses # m.ses THEN d.token ELSE h.token
        beside(h) == h.token = m.token /\ h.own = m.own /\ h.ses = m.ses
    IN  /\ On("reassert") /\ m.token > 0
        /\ On("since") => d.token <= m.last
        /\ m.id \notin d.released
        /\ IF Permits = 1 THEN \A h \in d.holds : beside(h) \/ (On("over") /\ last(h) < m.token)
           ELSE /\ On("since") => d.ended < m.token /\ \A h \in d.holds : h.token < m.token
                /\ Cardinality(d.holds) < Permits

PutBack(d, m) ==
    LET stay == {h \in d.holds : Permits > 1 \/ (h.token = m.token /\ h.own = m.own /\ h.ses = m.ses)}
    IN  [d EXCEPT !.holds = stay \cup {NewHold(m, m.token, Lease, FALSE)}, !.token = Max(@, m.last),
                  !.floor = Max(@, m.last)]

\* It lasts for so long from now; and the store hears who has it, where it went on in a turn.
Extended(h, m) ==
    [h EXCEPT !.id = IF On("repeat") THEN m.id ELSE @, !.turn = FALSE,
              !.token = IF h.turn /\ m.token > 0 THEN m.token ELSE @,
              !.own = IF h.turn /\ m.token > 0 THEN m.own ELSE @,
              !.left = IF On("longest") THEN Max(@, m.lease) ELSE m.lease]

Extend(m) ==
    LET p == Prepared(Tidied(db))
        back == Find(p, m) = {}
        d == IF back THEN PutBack(p, m) ELSE p
        h == CHOOSE h \in Find(d, m) : TRUE
        gone == IF h.id = m.id THEN d.released ELSE (d.released \cup {h.id}) \ {m.id}
    IN  IF back /\ ~MayReturn(p, m) THEN Reply(p, "lost", 0, 0)
        ELSE Reply([d EXCEPT !.holds = Swap(@, h, Extended(h, m)), !.released = gone], "extended", m.token, 1)

Ended(d, h) ==
    LET holds == d.holds \ {h}
    IN  [d EXCEPT !.holds = holds, !.released = @ \cup {h.id},
                  !.ended = IF Permits = 1 \/ \E o \in holds : o.token = h.token THEN @ ELSE Max(@, h.token)]

\* R7.
Release(m) ==
    LET d == Tidied(db)
        found == IF On("own") THEN Find(d, m) ELSE d.holds
        h == CHOOSE h \in found : TRUE
        e == Ended(d, h)
    IN  IF found = {} THEN Reply(d, IF m.id \in d.released THEN "released" ELSE "notheld", 0, 0)
        ELSE IF ~On("repeat") /\ h.count > 1
        THEN Reply([d EXCEPT !.holds = Swap(@, h, [h EXCEPT !.count = @ - 1])], "released", 0, 0)
        ELSE Reply(IF On("repeat") THEN [e EXCEPT !.released = @ \cup {m.id}] ELSE [e EXCEPT !.released = {}],
                   "released", 0, 0)

\* Ends a request that was given up, and what it was granted.
Cancel(m) ==
    LET d == [Tidied(db) EXCEPT !.queued = @ \ {m.c}]
        found == {h \in d.holds : h.id = m.id}
        h == CHOOSE h \in found : TRUE
        less == [d EXCEPT !.holds = Swap(@, h, [h EXCEPT !.count = @ - 1])]
    IN  Reply(IF found = {} THEN d ELSE IF h.count > 1 THEN less ELSE Ended(d, h), "cancelled", 0, 0)

-----------------------------------------------------------------------------
(* The clients and their sidecars. *)

Befalls(fault) == fault \in Faults /\ faults < FaultsMax /\ faults' = faults + 1
Fail(promise) == broken' = broken \cup {promise}

Idle == [phase |-> "idle", n |-> 0, waits |-> FALSE, token |-> 0, last |-> 0, acts |-> 0, seat |-> None,
         passes |-> FALSE, knew |-> FALSE, was |-> 0, wasLeft |-> 0]

\* After its request has ended.  What it gave on in a turn its app still remembers.
Rests(c) == [Idle EXCEPT !.was = cl[c].was, !.wasLeft = cl[c].wasLeft]

Acting(c) == cl[c].phase = "holds" /\ cl[c].acts > 0
Sent(c) == Cardinality({m \in net : m.c = c})

\* The numbers of a client that anybody may still refer to.  (Ids are random; that a number comes again which nobody
\* refers to keeps the states few.)
Numbers(c) ==
    {i[2] : i \in {i \in {h.id : h \in db.holds \cup saved.holds} \cup db.released \cup saved.released
                         \cup {m.id : m \in net} \cup {m.seat : m \in net} \cup {cl[o].seat : o \in Clients}
                   : i # None /\ i[1] = c}}
    \cup {cl[c].was}

NextNumber(c) == CHOOSE n \in 1..20 : n \notin Numbers(c) /\ \A k \in 1..(n - 1) : k \in Numbers(c)

Message(c, op) ==
    [op |-> op, st |-> "sent", late |-> FALSE, c |-> c, id |-> Id(c), ses |-> Session(Home(c)), own |-> Owner(c),
     seat |-> None, beside |-> None, token |-> 0, last |-> 0, tokens |-> 1, floor |-> 0, lease |-> Lease, acts |-> 0,
     reply |-> None]

\* It waits.  It need not ask at once: another client of its sidecar may give the lock on to it.
Begin(c) ==
    /\ cl[c].phase = "idle"
    /\ cl' = [cl EXCEPT ![c] = [Rests(c) EXCEPT !.phase = "asks", !.n = NextNumber(c)]]
    /\ UNCHANGED <<db, saved, srv, side, ghosts, net, given, top, faults, broken>>

Beside(c) == {o \in Mates \ {c} : c \in Mates /\ Acting(o)}
Named(c) == IF Beside(c) = {} THEN None
            ELSE LET o == CHOOSE o \in Beside(c) : TRUE IN [id |-> Id(o), token |-> cl[o].token, last |-> cl[o].last]

Ask(c) ==
    /\ cl[c].phase = "asks" /\ ~cl[c].waits /\ Sent(c) < Requests
    /\ LET others == \E o \in Clients \ {c} : Home(o) = Home(c) /\ cl[o].phase = "asks"
           turn == Permits = 1 /\ c \notin Fair /\ others
           named == Named(c)
           m == [Message(c, "acquire") EXCEPT !.beside = named, !.tokens = IF turn THEN Block ELSE 1,
                                              !.floor = side[Home(c)].floor, !.acts = Lease]
       IN  /\ net' = net \cup {m}
           /\ cl' = [o \in Clients |->
                        IF o = c THEN [cl[c] EXCEPT !.waits = TRUE]
                        ELSE IF named # None /\ On("named") /\ named.id = Id(o) THEN [cl[o] EXCEPT !.passes = FALSE]
                        ELSE cl[o]]
    /\ UNCHANGED <<db, saved, srv, side, ghosts, given, top, faults, broken>>

\* Also when its promise is over: then nothing puts the hold back.  Its turn ends with that.
Prolong(c) ==
    /\ cl[c].phase = "holds" /\ ~cl[c].waits /\ Sent(c) < Requests
    /\ cl[c].acts < Lease \/ cl[c].seat # None
    /\ LET knows == cl[c].acts > 0
           lease == IF c \in Brief THEN 1 ELSE Lease
       IN  net' = net \cup {[Message(c, "extend") EXCEPT !.seat = cl[c].seat, !.lease = lease, !.acts = lease,
                                !.token = IF knows THEN cl[c].token ELSE 0, !.last = IF knows THEN cl[c].last ELSE 0]}
    /\ cl' = [cl EXCEPT ![c].waits = TRUE, ![c].passes = FALSE]
    /\ UNCHANGED <<db, saved, srv, side, ghosts, given, top, faults, broken>>

\* R2 and R3: the lock goes on in its turn.
PassOn(c, o) ==
    /\ Acting(c) /\ ~cl[c].waits /\ cl[c].passes /\ cl[c].token < cl[c].last
    /\ o # c /\ Home(o) = Home(c) /\ cl[o].phase = "asks" /\ ~cl[o].waits /\ o \notin Fair
    /\ \A x \in Clients \ {c} : Owner(x) = Owner(c) => ~Acting(x)
    /\ LET token == cl[c].token + 1
           over == On("seat")
       IN  /\ cl' = [cl EXCEPT
                        ![c] = IF "again" \in Faults THEN [Idle EXCEPT !.was = cl[c].n, !.wasLeft = Lease] ELSE Idle,
                        ![o] = [@ EXCEPT !.phase = "holds", !.token = token, !.last = cl[c].last, !.seat = cl[c].seat,
                                         !.acts = IF over THEN cl[c].acts ELSE Lease, !.passes = TRUE,
                                         !.knew = cl[c].knew]]
           /\ top' = Max(top, token)
           /\ broken' = broken \cup (IF token <= top THEN {"TokensRise"} ELSE {})
                               \cup (IF cl[c].knew /\ db.queued # {} THEN {"NotOvertaken"} ELSE {})
    /\ UNCHANGED <<db, saved, srv, side, ghosts, net, given, faults>>

\* It has stopped, and gives the lock back to the store; again, where there was no answer; or not (Rest).
GiveBack(c) ==
    /\ cl[c].phase \in {"holds", "gives"} /\ ~cl[c].waits /\ Sent(c) < Requests
    /\ cl' = [cl EXCEPT ![c] = [Rests(c) EXCEPT !.phase = "gives", !.n = cl[c].n, !.seat = cl[c].seat, !.waits = TRUE]]
    /\ net' = net \cup {[Message(c, "release") EXCEPT !.seat = cl[c].seat]}
    /\ UNCHANGED <<db, saved, srv, side, ghosts, given, top, faults, broken>>

Rest(c) ==
    /\ cl[c].phase \in {"holds", "gives"} /\ ~cl[c].waits /\ cl[c].acts = 0
    /\ cl' = [cl EXCEPT ![c] = Rests(c)]
    /\ UNCHANGED <<db, saved, srv, side, ghosts, net, given, top, faults, broken>>

\* R7: who gave the lock on in a turn gives it back once more, through its own sidecar, which knows better, or another.
Again(c) ==
    /\ cl[c].was > 0 /\ Befalls("again")
    /\ \E w \in Sidecars :
        /\ w = Home(c) => ~On("gone")
        /\ net' = net \cup {[Message(c, "release") EXCEPT !.id = <<c, cl[c].was>>, !.ses = Session(w)]}
    /\ UNCHANGED <<db, saved, srv, cl, side, ghosts, given, top, broken>>

Awaits(m) == cl[m.c].waits /\ ~m.late /\ m.id = Id(m.c) /\ m.ses = Session(Home(m.c)) /\ m.op # "cancel"

\* No answer in time: the request may be executed, has been or never will be.
GiveUp(c) ==
    /\ cl[c].waits
    /\ cl' = [cl EXCEPT ![c].waits = FALSE]
    /\ LET its == {m \in net : m.c = c /\ Awaits(m)} IN
        \/ net' = net \ its /\ UNCHANGED faults
        \/ /\ Befalls("late") /\ \E m \in its : m.st = "sent"
           /\ net' = (net \ its) \cup {[m EXCEPT !.late = TRUE] : m \in its}
    /\ UNCHANGED <<db, saved, srv, side, ghosts, given, top, broken>>

\* Its client has gone while it waited.
Leave(c) ==
    /\ cl[c].phase = "asks" /\ ~cl[c].waits /\ Sent(c) < Requests /\ Befalls("gone")
    /\ cl' = [cl EXCEPT ![c] = Rests(c)]
    /\ net' = net \cup {Message(c, "cancel")}
    /\ UNCHANGED <<db, saved, srv, side, ghosts, given, top, broken>>

-----------------------------------------------------------------------------
(* The messages. *)

\* What is remembered of holds that were given back, as far as anybody may still name them.
Clean(d) ==
    [d EXCEPT !.released = {i \in @ : \/ \E m \in net : m.id = i
                                      \/ cl[i[1]].phase # "idle" /\ Id(i[1]) = i
                                      \/ cl[i[1]].was = i[2]}]

\* R1: the request says until when, by the store's clock, as far as its sender knows that.
MayExecute(m) == m.st = "sent" /\ (m.late => ~On("intime") \/ ~srv.ahead)

Execute(m) ==
    /\ MayExecute(m)
    /\ LET step == CASE m.op = "acquire" -> Acquire(m) [] m.op = "extend" -> Extend(m)
                     [] m.op = "release" -> Release(m) [] OTHER -> Cancel(m)
           last == step.token + step.tokens - 1
           before == db.queued \ {m.c}
           promised == Acting(m.c) /\ m.id = Id(m.c) /\ Permits = 1 /\ given <= cl[m.c].last
           left == m.late /\ m.id # Id(m.c) /\ ~\E x \in net : x.op = "cancel" /\ x.id = m.id
       IN  /\ step.new => last <= Tokens
           /\ db' = Clean(step.d)
           /\ given' = IF step.new THEN Max(given, last) ELSE given
           /\ net' = (net \ {m}) \cup
                     (IF Awaits(m) THEN {[m EXCEPT !.st = "done", !.floor = 0, !.seat = None, !.token = 0, !.last = 0,
                                            !.tokens = 1, !.reply = [is |-> step.is, token |-> step.token,
                                            tokens |-> step.tokens,
                                            \* A turn that is granted once more has begun before.
                                            knew |-> step.new /\ db.fair /\ step.tokens > 1]]}
                      ELSE {})
           /\ broken' = broken
                \cup (IF step.new /\ step.token <= given THEN {"NoTokenTwice"} ELSE {})
                \cup (IF step.new /\ Cardinality(before) >= Free(db) THEN {"NotOvertaken"} ELSE {})
                \cup (IF step.new /\ left THEN {"NotToTheGone"} ELSE {})
                \cup (IF step.is = "lost" /\ promised THEN {"NotLost"} ELSE {})
    /\ UNCHANGED <<saved, srv, cl, side, ghosts, top, faults>>

Lose(m) ==
    /\ m.st = "sent" /\ ~Awaits(m)
    /\ net' = net \ {m}
    /\ UNCHANGED <<db, saved, srv, cl, side, ghosts, given, top, faults, broken>>

Haunts(c) == IF Acting(c) THEN {[own |-> Owner(c), token |-> cl[c].token, left |-> cl[c].acts]} ELSE {}

Answered(m) ==
    /\ m.st = "done"
    /\ LET c == m.c
           w == Home(c)
           r == m.reply
           over == m.op = "extend" /\ cl[c].acts = 0 /\ On("lapsed")
           acts == IF over THEN 0 ELSE IF On("sent") THEN m.acts ELSE m.lease
           last == IF r.tokens > 1 THEN r.token + r.tokens - 1
                   ELSE IF m.beside # None /\ m.beside.token = r.token THEN m.beside.last ELSE r.token
           mates == \E o \in Clients \ {c} : Owner(o) = Owner(c) /\ cl[o].token = r.token
       IN  CASE m.op = "acquire" /\ r.is = "granted" ->
                /\ side' = [side EXCEPT ![w].floor = Max(@, last)]
                /\ IF acts > 0
                   THEN /\ cl' = [cl EXCEPT ![c] = [@ EXCEPT !.phase = "holds", !.waits = FALSE, !.token = r.token,
                                    !.last = last, !.acts = acts, !.seat = IF r.tokens > 1 THEN m.id ELSE None,
                                    !.passes = r.tokens > 1, !.knew = r.knew]]
                        /\ top' = Max(top, r.token)
                        /\ IF Permits = 1 /\ r.token <= top /\ ~mates THEN Fail("TokensRise") ELSE UNCHANGED broken
                        /\ net' = net \ {m}
                   ELSE \* Its time was over before it came: nobody is told of it.
                        /\ cl' = [cl EXCEPT ![c] = Rests(c)]
                        /\ net' = (net \ {m}) \cup {Message(c, "cancel")}
                        /\ UNCHANGED <<top, broken>>
                /\ UNCHANGED ghosts
             [] m.op = "acquire" /\ r.is # "granted" ->
                /\ cl' = [cl EXCEPT ![c].waits = FALSE] /\ net' = net \ {m}
                /\ UNCHANGED <<side, ghosts, top, broken>>
             [] m.op = "extend" /\ r.is = "extended" ->
                /\ cl' = [cl EXCEPT ![c].waits = FALSE, ![c].acts = Max(@, acts), ![c].seat = None]
                /\ net' = net \ {m}
                \* A promise that was over begins anew.
                /\ IF Permits = 1 /\ cl[c].acts = 0 /\ acts > 0 /\ cl[c].token < top THEN Fail("TokensRise")
                   ELSE UNCHANGED broken
                /\ UNCHANGED <<side, ghosts, top>>
             [] m.op = "extend" /\ r.is # "extended" ->
                \* It acts to the end of what it was told: the worst that it may do.
                /\ cl' = [cl EXCEPT ![c] = Rests(c)] /\ net' = net \ {m}
                /\ ghosts' = ghosts \cup Haunts(c)
                /\ UNCHANGED <<side, top, broken>>
             [] OTHER ->
                /\ cl' = [cl EXCEPT ![c] = Rests(c)] /\ net' = net \ {m}
                /\ UNCHANGED <<side, ghosts, top, broken>>
    /\ UNCHANGED <<db, saved, srv, given, faults>>

-----------------------------------------------------------------------------
(* Time, and what befalls. *)

Older(d) ==
    [d EXCEPT !.holds = {[h EXCEPT !.left = @ - 1] : h \in {h \in @ : h.left > 1}}, !.guard = Less(@)]

Tick ==
    /\ db' = Clean(Older(db)) /\ saved' = Older(saved) /\ srv' = [srv EXCEPT !.young = Less(@)]
    /\ cl' = [c \in Clients |-> [cl[c] EXCEPT !.acts = Less(@), !.passes = @ /\ cl[c].acts > 1, !.wasLeft = Less(@),
                                              !.was = IF cl[c].wasLeft > 1 THEN @ ELSE 0]]
    /\ ghosts' = {[g EXCEPT !.left = @ - 1] : g \in {g \in ghosts : g.left > 1}}
    /\ net' = {[m EXCEPT !.acts = Less(@)] : m \in net}
    /\ UNCHANGED <<side, given, top, faults, broken>>

Kill(w) ==
    /\ Befalls("kill")
    /\ LET its == {c \in Clients : Home(c) = w} IN
        /\ ghosts' = ghosts \cup UNION {Haunts(c) : c \in its}
        /\ cl' = [c \in Clients |-> IF c \in its THEN Rests(c) ELSE cl[c]]
        /\ net' = {m \in net : m.c \notin its \/ m.st = "sent"}
        \* Tickets of the dead are dropped.
        /\ db' = [db EXCEPT !.queued = @ \ its]
    /\ side' = [side EXCEPT ![w] = [run |-> @.run + 1, floor |-> 0]]
    /\ UNCHANGED <<saved, srv, given, top, broken>>

Save ==
    /\ "older" \in Faults /\ faults < FaultsMax /\ saved # db
    /\ saved' = db
    /\ UNCHANGED <<db, srv, cl, side, ghosts, net, given, top, faults, broken>>

Other(d) == IF d.gen = "none" THEN d ELSE [d EXCEPT !.gen = "other"]

\* The store starts anew: with its data, without, or with an earlier save.
Restart ==
    /\ \/ Befalls("restart") /\ db' = Other(db)
       \/ Befalls("loss of data") /\ db' = Empty
       \/ Befalls("older") /\ db' = Other(saved)
    /\ saved' = IF faults' < FaultsMax THEN saved ELSE Empty
    /\ srv' = [srv EXCEPT !.young = Guard]
    \* Its connections are gone, and with them what was on its way.
    /\ net' = IF On("connection") THEN {m \in net : m.st = "done"} ELSE net
    /\ UNCHANGED <<cl, side, ghosts, given, top, broken>>

Flush ==
    /\ Befalls("flush") /\ db' = Empty
    /\ UNCHANGED <<saved, srv, cl, side, ghosts, net, given, top, broken>>

\* The record of a name is forgotten some time after its last use, and the store's own is not.
Forgotten ==
    /\ Befalls("forgotten") /\ db.holds = {} /\ db.queued = {}
    /\ db' = [Empty EXCEPT !.floor = db.floor, !.gen = db.gen, !.guard = db.guard]
    /\ UNCHANGED <<saved, srv, cl, side, ghosts, net, given, top, broken>>

Back(d) == [d EXCEPT !.holds = {[h EXCEPT !.left = @ + Lease] : h \in @}, !.guard = IF @ > 0 THEN @ + Guard ELSE 0]

\* The clock is stepped back: what stands seems to last for longer, and tokens are ahead of it.
Clock ==
    /\ Befalls("clock")
    /\ db' = Back(db) /\ saved' = Back(saved) /\ srv' = [srv EXCEPT !.ahead = FALSE]
    /\ UNCHANGED <<cl, side, ghosts, net, given, top, broken>>

-----------------------------------------------------------------------------
Symmetry == {p \in Permutations(Clients) : \A A \in {Theirs, Mates, Fair, Brief} : {p[c] : c \in A} = A}

Init ==
    /\ db = [Empty EXCEPT !.fair = Queued] /\ saved = db /\ srv = [young |-> 0, ahead |-> TRUE]
    /\ cl = [c \in Clients |-> Idle]
    /\ side = [w \in Sidecars |-> [run |-> 0, floor |-> 0]]
    /\ ghosts = {} /\ net = {} /\ given = 0 /\ top = 0 /\ faults = 0 /\ broken = {}

Next ==
    \/ Tick
    \/ \E c \in Clients : Begin(c) \/ Ask(c) \/ Prolong(c) \/ GiveBack(c) \/ Rest(c) \/ Again(c)
    \/ \E c \in Clients : GiveUp(c) \/ Leave(c)
    \/ \E c, o \in Clients : PassOn(c, o)
    \/ \E m \in net : Execute(m) \/ Lose(m) \/ Answered(m)
    \/ \E w \in Sidecars : Kill(w)
    \/ Save \/ Restart \/ Flush \/ Forgotten \/ Clock

Spec == Init /\ [][Next]_vars

\* A bound.
Within == TLCGet("level") <= Steps

-----------------------------------------------------------------------------
\* One owner's holds under one token are one: it took the lock again.
Holders == {<<Owner(c), cl[c].token>> : c \in {c \in Clients : Acting(c)}} \cup {<<g.own, g.token>> : g \in ghosts}

AtMost == Cardinality(Holders) <= Permits
TokensRise == "TokensRise" \notin broken
NoTokenTwice == "NoTokenTwice" \notin broken
NotLost == "NotLost" \notin broken
NotOvertaken == "NotOvertaken" \notin broken
NotToTheGone == "NotToTheGone" \notin broken
=============================================================================
