------------------------------- MODULE Ledger -------------------------------
(* The ledger of one job (promise P6), as in src/protocol/reference/ledger.rs (the store's side) and
   src/protocol/jobs/controller with src/protocol/jobs/ledger (a leader's side).

   A process is one term of a role: P1 is taken as given, so a term begins when those before it of its role are
   over. What a former leader has sent may still be executed, and one that stood still goes on without having
   noticed (Pause): it looks, writes and is answered, and only "room" keeps it from claiming and starting. Terms of
   two roles do overlap: a job may move from role "a" to "b" (Move), and who leads a role hears of it when it hears.

   Rules, and where they are:
     confirmed  an attempt starts when the store has its claim                                      Start
     fence      a later term's first look shuts the ledger to earlier ones of its role              Raise
     base       a write on another version than the present one is refused                          Write
     unique     the store takes versions from its clock: none comes twice, also after a loss        Write
     roles      tokens are compared within one role only                                            Role
     write      another role takes a ledger over by writing on what is there, never by a look       Open
     restore    what the store has lost its leader puts back                                        TakeIn
     counted    an interrupted attempt counts: the next has the next number                         Interrupted
     room       nothing is claimed or started without the time left in the term                     Room
     leaps      what had a run stays decided whatever a clock shows; only what was missed opens     Reopened

   Time. `day` is the time of day, in slots; each process has a clock that may be set (Clock). The lease is no
   countdown: a term is over when Kill, Pause or Leave says so, and an attempt ends whenever it ends. So "room" is
   here: its term is not over. Versions of the ledger are numbers that rise with each write, bounded by Writes.

   What is judged. P6: no attempt of a slot is claimed by two terms or under two tokens, or started twice, while the
   store keeps what it was told, or a leader that knows it lives (ghost.witness). Once a leader that does not know
   it sees a store that has lost something, what was before is forgotten. Whether that may be another role's leader,
   while the one who knows it lives, is the constant Strict: without it, as in tests/simulation/jobs, it may.
   NoStale: a stale leader's write changes nothing after its successor's first look. AfterItsClaim, InItsTerm:
   nothing starts before the store has its claim, or when its term is over. TokensRise: attempts start under rising
   tokens (where the job does not move). Served: the latest leader of a role is not told that it is stale.

   Left out, since they change nothing of who claims what: pauses, backoff, deadlines, concurrency, suspension, the
   history but for its shortest (Forgets), notes, gaps, places, requests for runs, orders, keys and backfills (a
   Wish only changes the version); jobs made at run time (src/protocol/jobs/taker). A claim is made while no request
   is out: one made meanwhile waits for its answer. Whether what was missed may be opened again is decided slot by
   slot: a stretch before which all is settled for good (Leaps::settled), and the memory of what was reopened, only
   narrow that. *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Terms,          \* how many terms the role "a" may have that the job is of at first
    Others,         \* how many the role "b" may have that it moves to, 0 where it does not move
    TokenA, TokenB, \* the tokens of their first terms; those that follow have one more each
    Slots,          \* the schedule has slots 1..Slots
    Attempts,       \* how many attempts a run may have
    Forgets,        \* whether a run that is over is forgotten at once
    Strict,         \* whether P6 counts, too, what another role's leader makes of a loss: see Loses
    Off,            \* the rules that are switched off
    Faults,         \* what may befall
    FaultsMax, Writes, Steps    \* bounds

ASSUME Off \subseteq {"fence", "base", "unique", "write", "roles", "confirmed", "restore", "counted", "room",
                      "leaps"}

On(rule) == rule \notin Off
May(fault) == fault \in Faults

VARIABLES
    store,      \* the ledger in the store
    saved,      \* an earlier state of it, to which it may be set back
    proc,       \* a process for each term
    net,        \* requests on their way, and answers
    day,        \* the time of day: slot s is due from s on
    writes,     \* the store's clock: how many writes there were
    ghost,      \* what the promises are judged by
    faults,     \* how many faults there were
    broken      \* the promises that were broken

vars == <<store, saved, proc, net, day, writes, ghost, faults, broken>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Top(S) == IF S = {} THEN 0 ELSE CHOOSE x \in S : \A y \in S : y <= x

-----------------------------------------------------------------------------
\* Terms. A process is named by its role and the number of its term.

Procs == ({"a"} \X (1..Terms)) \cup ({"b"} \X (1..Others))
Token(p) == p[2] - 1 + IF p[1] = "a" THEN TokenA ELSE TokenB
Role(p) == IF On("roles") THEN p[1] ELSE "a"

-----------------------------------------------------------------------------
\* A ledger.

NoRun == [n |-> 0, tok |-> 0, term |-> 0, ph |-> "none"]
Times == 1..Slots
\* Whoever finds none begins with the slots to come.
New(wall) == [runs |-> [s \in Times |-> NoRun], good |-> {s \in Times : s <= wall}, passed |-> {}, token |-> 0]
None == [ver |-> 0, body |-> New(0), owner |-> "-", fence |-> 0]

Decided(l) == l.good \cup l.passed

\* With every claim the ledger's own token rises.
Claimed(l, s, term) ==
    LET tok == Max(term, l.token + 1)
    IN  [l EXCEPT !.token = tok, !.good = @ \cup {s}, !.passed = @ \ {s},
                  !.runs[s] = [n |-> @.n + 1, tok |-> tok, term |-> term, ph |-> "running"]]

Over(l, s) == [l EXCEPT !.runs[s] = IF Forgets THEN NoRun ELSE [@ EXCEPT !.ph = "over"]]
GoesOn(l, s) == IF l.runs[s].n >= Attempts THEN Over(l, s) ELSE [l EXCEPT !.runs[s].ph = "waiting"]

\* Attempts that are running by the ledger, and that are not ours: their leader is gone.
Interrupted(l, ours) ==
    LET theirs == {s \in Times : l.runs[s].ph = "running" /\ <<s, l.runs[s].n>> \notin ours}
        Ended(run) == IF ~On("counted") THEN [run EXCEPT !.ph = "waiting", !.n = @ - 1]
                      ELSE IF run.n >= Attempts THEN IF Forgets THEN NoRun ELSE [run EXCEPT !.ph = "over"]
                      ELSE [run EXCEPT !.ph = "waiting"]
    IN  [l EXCEPT !.runs = [s \in Times |-> IF s \in theirs THEN Ended(l.runs[s]) ELSE l.runs[s]]]

Step(run) == CASE run.ph = "running" -> 1 [] run.ph = "waiting" -> 2 [] run.ph = "over" -> 3 [] OTHER -> 0
Less(run, other) == run.tok < other.tok \/ (run.tok = other.tok /\ Step(run) < Step(other))

\* What the store has instead of this ledger, taken in by the leader of this term (0: it is another role's): only runs
\* of this term. Others would count as interrupted; no promise needs it (searched to the end with a killed, a paused
\* leader and lost data), so it is no rule.
Adopted(l, stored, term) ==
    LET Ours(run) == run.ph # "none" /\ term > 0 /\ run.term >= term
        decides == (\E s \in Times : Ours(stored.runs[s])) /\ stored.token >= l.token
        further == decides /\ Top(Decided(stored)) > Top(Decided(l))
        Run(s) == LET run == l.runs[s] theirs == stored.runs[s] IN
            IF ~Ours(theirs) THEN run
            ELSE IF run.ph # "none" THEN IF Less(run, theirs) THEN theirs ELSE run
            ELSE IF s \in Decided(l) THEN NoRun ELSE theirs
    IN  [runs |-> [s \in Times |-> Run(s)], token |-> Max(l.token, stored.token),
         good |-> IF further THEN stored.good ELSE l.good, passed |-> IF further THEN stored.passed ELSE l.passed]

\* "leaps": what was passed over by a clock ahead is open again, what had a run is not.
Reopened(l, wall) ==
    [l EXCEPT !.passed = {s \in @ : s <= wall}, !.good = IF On("leaps") THEN @ ELSE {s \in @ : s <= wall}]

-----------------------------------------------------------------------------
\* The store: one atomic step for each request.

Raise(m) ==
    IF store.owner = Role(m.p) THEN IF On("fence") /\ Token(m.p) < store.fence THEN "stale" ELSE "ok"
    ELSE IF store.ver # 0 THEN "other" ELSE "ok"

Taken(m) == [store EXCEPT !.owner = Role(m.p), !.fence = Token(m.p)]

Open(m) ==
    LET raised == IF ~On("write") /\ store.owner # Role(m.p) THEN "ok" ELSE Raise(m)
    IN  [store |-> IF raised = "ok" THEN Taken(m) ELSE store, is |-> IF raised = "ok" THEN "opened" ELSE raised]

Write(m) ==
    LET raised == Raise(m)
        known == m.base = store.ver \/ ~On("base")
        ver == IF On("unique") THEN writes + 1 ELSE store.ver + 1
    IN  IF raised = "stale" \/ (raised = "other" /\ ~known) THEN [store |-> store, is |-> raised]
        ELSE IF ~known THEN [store |-> Taken(m), is |-> "diverged"]
        ELSE [store |-> [Taken(m) EXCEPT !.ver = ver, !.body = m.body], is |-> "written"]

-----------------------------------------------------------------------------
Befalls(fault) == May(fault) /\ faults < FaultsMax /\ faults' = faults + 1

Idle == [up |-> FALSE, term |-> "before", stage |-> "none", led |-> New(0), base |-> 0, found |-> 0, dirty |-> FALSE,
         look |-> FALSE, out |-> "no", sent |-> {}, claims |-> {}, confirmed |-> {}, live |-> {}, wall |-> 0]

Later(p) == {q \in Procs : q[1] = p[1] /\ q[2] > p[2]}
Earlier(p) == {q \in Procs : q[1] = p[1] /\ q[2] < p[2]}
\* Nobody has begun a later term of its role.
IsCurrent(p) == \A q \in Later(p) : proc[q].term = "before"
Room(x) == x.term = "leads" \/ ~On("room")
Ours(x) == x.live \cup x.claims \cup x.confirmed

Dirtied(x, l) == [x EXCEPT !.led = l, !.dirty = @ \/ l # x.led]

\* A term's first sight of the ledger.
BeginTerm(x, ver, body) ==
    LET l0 == IF ver = 0 THEN New(x.wall) ELSE body
        l1 == Interrupted(IF On("leaps") THEN l0 ELSE Reopened(l0, x.wall), Ours(x))
    IN  [x EXCEPT !.stage = "ready", !.base = ver, !.found = 0, !.led = l1, !.dirty = ver = 0 \/ l1 # body]

\* The store has another ledger than the one that was written last: what it lost is put back.
TakeIn(x, ver, body, term) ==
    IF ~On("restore") /\ ver < x.base THEN BeginTerm([x EXCEPT !.claims = {}, !.confirmed = {}], ver, body)
    ELSE LET l == IF ver = 0 THEN x.led ELSE Adopted(x.led, body, term)
         IN  [x EXCEPT !.base = ver, !.led = Interrupted(l, Ours(x)), !.dirty = TRUE]

Superseded(x) ==
    [x EXCEPT !.stage = IF @ = "closing" THEN "gone" ELSE "over", !.found = 0, !.claims = {}, !.confirmed = {},
              !.dirty = FALSE, !.look = FALSE]

LookAnew(x) == [x EXCEPT !.found = 0, !.look = TRUE]

\* A request came to nothing: what it was for is still to be done.
GivenBack(x) ==
    IF x.stage = "opening" THEN [LookAnew(x) EXCEPT !.out = "no", !.sent = {}]
    ELSE [x EXCEPT !.out = "no", !.claims = @ \cup x.sent, !.sent = {}, !.dirty = TRUE]

LostOrMoved(x, m) ==
    IF m.owner # "-" /\ ~(m.ver < x.base) THEN Superseded(x) ELSE TakeIn(x, m.ver, m.body, 0)

Heard(p, x0, m) ==
    LET x == [x0 EXCEPT !.out = "no", !.sent = {}]
        back == GivenBack(x0)
    IN  CASE x.stage = "gone" -> x
          [] m.is = "stale" -> Superseded(x)
          [] m.op = "open" /\ m.is = "opened" ->
                IF x.stage = "opening" THEN BeginTerm(x, m.ver, m.body)
                ELSE IF m.ver # x.base THEN TakeIn(x, m.ver, m.body, Token(p)) ELSE x
          [] m.op = "open" /\ m.is = "other" ->
                IF x.stage = "opening"
                THEN IF Room(x) THEN [x EXCEPT !.found = m.ver, !.led = m.body] ELSE LookAnew(x)
                ELSE LostOrMoved(x, m)
          [] m.op = "take" -> IF m.is = "written" THEN BeginTerm(x, m.ver, x.led) ELSE LookAnew(x)
          [] m.is = "written" -> [x EXCEPT !.base = m.ver, !.confirmed = @ \cup x0.sent]
          [] m.is = "other" -> LostOrMoved(back, m)
          [] OTHER -> TakeIn(back, m.ver, m.body, Token(p))

-----------------------------------------------------------------------------
\* What the promises are judged by.

Fail(promises) == broken' = broken \cup promises

Forgotten(g) == [g EXCEPT !.had = {}, !.started = {}, !.top = 0, !.lost = FALSE, !.witness = <<>>]

\* P6 holds while the store has what it was told, or a leader that knows it.
Knows(x) == x.up /\ x.stage \in {"ready", "closing"}
Witness == LET who == {p \in Procs : Knows(proc[p]) /\ IsCurrent(p) /\ Role(p) = store.owner}
           IN  IF who = {} THEN <<>> ELSE CHOOSE p \in who : TRUE

\* A leader that knows nothing of it sees a ledger of which something was lost.
Loses(p) ==
    /\ ghost.lost /\ ghost.witness # p /\ IsCurrent(p)
    /\ ~Strict \/ ghost.witness = <<>> \/ ~Knows(proc[ghost.witness]) \/ ghost.witness[1] = p[1]

\* A claim comes into the ledger as an attempt that is running.
RunsOf(l) == {<<s, l.runs[s].n, l.runs[s].tok, l.runs[s].term>> : s \in {s \in Times : l.runs[s].ph = "running"}}
Twice(had, runs) == \E h \in had, r \in runs : h[1] = r[1] /\ h[2] = r[2] /\ h # r

Executes(m, step) ==
    LET g == IF Loses(m.p) /\ step.is \in {"opened", "written"} THEN Forgotten(ghost) ELSE ghost
        opened == IF step.is = "opened" THEN [g EXCEPT !.fence[m.p[1]] = Max(@, Token(m.p))] ELSE g
        runs == RunsOf(m.body)
        good == g.lost /\ g.witness = m.p /\ ~m.old
        h == IF g.lost /\ ~good THEN IF g.witness = m.p THEN [opened EXCEPT !.had = @ \cup runs] ELSE opened
             ELSE [opened EXCEPT !.had = @ \cup runs, !.lost = FALSE, !.witness = <<>>,
                                 !.fence[m.p[1]] = Max(@, Token(m.p))]
    IN  IF step.is # "written" THEN ghost' = opened /\ broken' = broken
        ELSE /\ ghost' = [h EXCEPT !.ever = @ \cup runs]
             /\ Fail((IF ~g.lost /\ store.owner = Role(m.p) /\ Token(m.p) < g.fence[m.p[1]]
                      THEN {"stale"} ELSE {})
                     \cup (IF (~g.lost \/ good) /\ Twice(g.had, runs) THEN {"P6"} ELSE {}))

\* Refused for good, though its term is the latest of its role.
Barred(m) == m.st = "done" /\ m.is = "stale" /\ IsCurrent(m.p) /\ proc[m.p].term = "leads"

Started(p, c) ==
    LET run == proc[p].led.runs[c[1]]
        \* One whose claim was forgotten since is of before that.
        claim == <<c[1], c[2], run.tok, run.term>>
        counts == Strict \/ claim \in ghost.had
    IN
    /\ ghost' = [ghost EXCEPT !.started = IF counts THEN @ \cup {c} ELSE @, !.top = Max(@, run.tok)]
    /\ Fail((IF counts /\ c \in ghost.started THEN {"P6"} ELSE {})
            \cup (IF claim \notin ghost.ever THEN {"claim"} ELSE {})
            \cup (IF proc[p].term # "leads" THEN {"late"} ELSE {})
            \cup (IF run.tok <= ghost.top /\ Others = 0 THEN {"tokens"} ELSE {}))

-----------------------------------------------------------------------------
\* The processes.

Begin(p) ==
    /\ proc[p].term = "before" /\ \A q \in Earlier(p) : proc[q].term = "over"
    /\ p[1] = "b" => ghost.moved
    /\ proc' = [proc EXCEPT ![p] =
            [Idle EXCEPT !.up = TRUE, !.term = "leads", !.stage = "opening", !.look = TRUE, !.wall = day]]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

\* One request is out at a time.
Send(p) ==
    /\ proc[p].up /\ proc[p].out = "no" /\ proc[p].stage \in {"opening", "ready", "closing"}
    /\ LET x == proc[p]
           op == IF x.found # 0 THEN "take" ELSE IF x.dirty /\ x.stage # "opening" THEN "write" ELSE "open"
           m == [p |-> p, st |-> "sent", op |-> op,
                 base |-> IF op = "take" THEN x.found ELSE IF op = "write" THEN x.base ELSE 0,
                 body |-> IF op = "open" THEN New(0) ELSE x.led, old |-> FALSE]
       IN  /\ op = "open" => x.look
           /\ net' = net \cup {m}
           /\ proc' = [proc EXCEPT ![p] =
                  [x EXCEPT !.out = op, !.look = FALSE, !.dirty = IF op = "write" THEN FALSE ELSE @,
                            !.sent = IF op = "write" THEN x.claims ELSE {}, !.claims = IF op = "write" THEN {} ELSE @]]
    /\ UNCHANGED <<store, saved, day, writes, ghost, faults, broken>>

\* Slots are decided in their order.
Due(x) == LET due == {s \in Times : s <= x.wall /\ s \notin Decided(x.led) /\ x.led.runs[s].ph = "none"}
          IN  {s \in due : \A t \in due : s <= t}
Resumes(x) == {s \in Times : x.led.runs[s].ph = "waiting" /\ s <= x.wall /\ \A c \in x.live : c[1] # s}

Claim(p) ==
    /\ proc[p].up /\ proc[p].stage = "ready" /\ proc[p].out = "no" /\ Room(proc[p])
    /\ \E s \in Due(proc[p]) \cup Resumes(proc[p]) :
        LET l == Claimed(proc[p].led, s, Token(p)) IN
        /\ l.runs[s].n <= Attempts
        /\ proc' = [proc EXCEPT ![p] = [Dirtied(@, l) EXCEPT !.claims = @ \cup {<<s, l.runs[s].n>>}]]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

\* Missed: another slot is due since.
Pass(p) ==
    /\ proc[p].up /\ proc[p].stage = "ready" /\ proc[p].out = "no"
    /\ \E s \in Due(proc[p]) :
        /\ s < proc[p].wall
        /\ proc' = [proc EXCEPT ![p] = Dirtied(@, [@.led EXCEPT !.passed = @ \cup {s}])]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

\* Its clock is behind the ledger.
Reopen(p) ==
    /\ proc[p].up /\ proc[p].stage = "ready" /\ \E s \in proc[p].led.passed : s > proc[p].wall
    /\ proc' = [proc EXCEPT ![p] = Dirtied(@, Reopened(@.led, @.wall))]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

Start(p) ==
    /\ proc[p].up /\ proc[p].stage = "ready" /\ Room(proc[p])
    /\ \E c \in (proc[p].confirmed \cup IF On("confirmed") THEN {} ELSE proc[p].sent) :
        LET run == proc[p].led.runs[c[1]]
            begins == run.ph = "running" /\ run.n = c[2] /\ run.term = Token(p)
        IN  /\ c \notin proc[p].live
            /\ \A d \in proc[p].confirmed : run.tok <= proc[p].led.runs[d[1]].tok
            /\ proc' = [proc EXCEPT ![p] =
                  [@ EXCEPT !.confirmed = @ \ {c}, !.sent = IF On("confirmed") THEN @ ELSE @ \ {c},
                            !.live = IF begins THEN @ \cup {c} ELSE @]]
            /\ IF begins THEN Started(p, c) ELSE UNCHANGED <<ghost, broken>>
    /\ UNCHANGED <<store, saved, net, day, writes, faults>>

Ends(p) ==
    /\ proc[p].up
    /\ \E c \in proc[p].live :
        LET x == [proc[p] EXCEPT !.live = @ \ {c}]
            run == x.led.runs[c[1]]
        IN  IF x.stage \in {"over", "gone", "opening"} \/ run.ph # "running" \/ run.n # c[2]
            THEN proc' = [proc EXCEPT ![p] = x]
            ELSE \E l \in {Over(x.led, c[1]), GoesOn(x.led, c[1])} : proc' = [proc EXCEPT ![p] = Dirtied(x, l)]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

\* A leader that is about to stop takes back what it has not begun.
Withdrawn(l, C) ==
    [l EXCEPT !.runs = [s \in Times |-> IF <<s, l.runs[s].n>> \in C /\ l.runs[s].ph = "running"
                                        THEN [l.runs[s] EXCEPT !.ph = "waiting", !.n = @ - 1] ELSE l.runs[s]]]

\* No answer in time: the request may have been executed, may never be, or may be yet.
GiveUp(p) ==
    /\ proc[p].up /\ proc[p].out # "no"
    /\ LET its == {m \in net : m.p = p /\ m.st \in {"sent", "done"}} IN
        \/ Befalls("unanswered") /\ net' = net \ its
        \/ Befalls("late") /\ (\E m \in its : m.st = "sent")
           /\ net' = (net \ its) \cup {[m EXCEPT !.st = "late"] : m \in its}
    /\ proc' = [proc EXCEPT ![p] = IF @.stage = "gone" THEN [@ EXCEPT !.out = "no"] ELSE GivenBack(@)]
    /\ UNCHANGED <<store, saved, day, writes, ghost, broken>>

Execute(m) ==
    /\ m.st \in {"sent", "late"}
    /\ LET step == IF m.op = "open" THEN Open(m) ELSE Write(m)
           awaited == m.st = "sent" /\ proc[m.p].up
           \* A ledger that nobody reads is not told.
           told == step.is \in {"opened", "other", "diverged"}
       IN  /\ step.is = "written" => writes < Writes
           /\ store' = step.store
           /\ writes' = IF step.is = "written" THEN writes + 1 ELSE writes
           /\ net' = (net \ {m}) \cup
                (IF awaited
                 THEN {[p |-> m.p, st |-> "done", op |-> m.op, is |-> step.is, ver |-> step.store.ver,
                        body |-> IF told THEN step.store.body ELSE New(0), owner |-> step.store.owner]}
                 ELSE {})
           /\ Executes(m, step)
    /\ UNCHANGED <<saved, proc, day, faults>>

Answered(m) ==
    /\ m.st = "done" /\ proc[m.p].up
    /\ net' = net \ {m}
    /\ proc' = [proc EXCEPT ![m.p] = Heard(m.p, @, m)]
    /\ UNCHANGED <<store, saved, day, writes, ghost, faults, broken>>

\* Who found another in possession looks again.
Again(p) ==
    /\ proc[p].up /\ proc[p].stage = "over" /\ proc[p].live = {} /\ May("again")
    /\ proc' = [proc EXCEPT ![p] = [@ EXCEPT !.stage = "opening", !.base = 0, !.look = TRUE]]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

\* Somebody may have written.
Look(p) ==
    /\ proc[p].up /\ proc[p].stage = "ready" /\ ~proc[p].look /\ ~proc[p].dirty /\ proc[p].out = "no"
    /\ Befalls("look")
    /\ proc' = [proc EXCEPT ![p].look = TRUE]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, broken>>

-----------------------------------------------------------------------------
\* What befalls.

Tick ==
    /\ day < Slots /\ day' = day + 1
    /\ proc' = [p \in Procs |-> IF proc[p].up THEN [proc[p] EXCEPT !.wall = Min(@ + 1, Slots)] ELSE proc[p]]
    /\ UNCHANGED <<store, saved, net, writes, ghost, faults, broken>>

\* The clock of the day is set.
Clock(p) ==
    /\ proc[p].up /\ Befalls("clock")
    /\ \E wall \in (0..Slots) \ {proc[p].wall} : proc' = [proc EXCEPT ![p].wall = wall]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, broken>>

\* Its term is over: it died, or stood still and goes on.
Kill(p) ==
    /\ proc[p].up /\ Befalls("kill")
    /\ proc' = [proc EXCEPT ![p] = [Idle EXCEPT !.term = "over"]]
    /\ net' = {m \in net : m.p # p \/ m.st # "done"}
    /\ UNCHANGED <<store, saved, day, writes, ghost, broken>>

Pause(p) ==
    /\ proc[p].term = "leads" /\ Befalls("pause")
    /\ proc' = [proc EXCEPT ![p].term = "over"]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, broken>>

Resign(p) ==
    /\ proc[p].term = "leads" /\ proc[p].stage \in {"opening", "ready"} /\ Befalls("resign")
    /\ proc' = [proc EXCEPT ![p].stage = IF @ = "ready" THEN "closing" ELSE "gone"]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, broken>>

\* What it has not begun when it is about to stop.
Withdraw(p) ==
    /\ proc[p].up /\ proc[p].stage = "closing" /\ proc[p].confirmed # {}
    /\ proc' = [proc EXCEPT ![p] = [Dirtied(@, Withdrawn(@.led, @.confirmed)) EXCEPT !.confirmed = {}]]
    /\ ghost' = [ghost EXCEPT !.had = {h \in @ : <<h[1], h[2]>> \notin proc[p].confirmed}]
    /\ UNCHANGED <<store, saved, net, day, writes, faults, broken>>

\* Its lease is given back when nothing is left to be done.
Leave(p) ==
    /\ proc[p].up /\ proc[p].term = "leads" /\ proc[p].stage \in {"closing", "gone"}
    /\ proc[p].live = {} /\ proc[p].confirmed = {} /\ proc[p].out = "no" /\ ~proc[p].dirty
    /\ proc' = [proc EXCEPT ![p] = [Idle EXCEPT !.term = "over"]]
    /\ UNCHANGED <<store, saved, net, day, writes, ghost, faults, broken>>

Save ==
    /\ May("set back") /\ faults < FaultsMax /\ saved.owner = "-" /\ store # saved
    /\ saved' = store
    /\ UNCHANGED <<store, proc, net, day, writes, ghost, faults, broken>>

Lose ==
    /\ \/ Befalls("loss of data") /\ store' = None
       \/ Befalls("set back") /\ saved.owner # "-" /\ store' = saved
    /\ store' # store
    /\ ghost' = [ghost EXCEPT !.lost = TRUE, !.witness = Witness]
    /\ net' = {IF m.st = "done" THEN m ELSE [m EXCEPT !.old = TRUE] : m \in net}
    /\ UNCHANGED <<saved, proc, day, writes, broken>>

\* Somebody writes without a term.
Wish ==
    /\ Befalls("wish") /\ writes < Writes
    /\ writes' = writes + 1
    /\ store' = [store EXCEPT !.ver = IF On("unique") THEN writes + 1 ELSE @ + 1,
                              !.body = IF store.ver = 0 THEN New(day) ELSE @]
    /\ UNCHANGED <<saved, proc, net, day, ghost, broken>>

Move ==
    /\ Others > 0 /\ ~ghost.moved /\ Befalls("move")
    /\ ghost' = [ghost EXCEPT !.moved = TRUE]
    /\ UNCHANGED <<store, saved, proc, net, day, writes, broken>>

-----------------------------------------------------------------------------
Init ==
    /\ store = None /\ saved = None
    /\ proc = [p \in Procs |-> Idle]
    /\ net = {} /\ day = 0 /\ writes = 0 /\ faults = 0 /\ broken = {}
    /\ ghost = [had |-> {}, ever |-> {}, started |-> {}, top |-> 0, lost |-> FALSE, witness |-> <<>>,
                fence |-> [r \in {"a", "b"} |-> 0], moved |-> FALSE]

Next ==
    \/ \E p \in Procs : \/ Begin(p) \/ Send(p) \/ Claim(p) \/ Pass(p) \/ Reopen(p) \/ Start(p) \/ Ends(p) \/ GiveUp(p)
                        \/ Again(p) \/ Look(p) \/ Clock(p) \/ Kill(p) \/ Pause(p) \/ Resign(p) \/ Withdraw(p)
                        \/ Leave(p)
    \/ \E m \in net : Execute(m) \/ Answered(m)
    \/ Tick \/ Save \/ Lose \/ Wish \/ Move

Spec == Init /\ [][Next]_vars

\* A bound.
Within == TLCGet("level") <= Steps

-----------------------------------------------------------------------------
P6 == "P6" \notin broken
NoStale == "stale" \notin broken
AfterItsClaim == "claim" \notin broken
InItsTerm == "late" \notin broken
TokensRise == "tokens" \notin broken
Served == \A m \in net : ~Barred(m)
=============================================================================
