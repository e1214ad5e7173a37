----------------------------- MODULE BatonTrace -----------------------------
(***************************************************************************)
(* What runs tell of their store, held against Baton.tla: each trace is    *)
(* the steps of a run of the simulation, or of real sidecars on a real     *)
(* Redis, with what was asked, what was answered, by which clock. A trace  *)
(* is accepted if every answer is the one that Campaign, Renew or Release  *)
(* of Baton.tla gives to what is asked of a store that is as the trace's   *)
(* steps before have left it; TLC follows it line by line, and prints how  *)
(* far it came.                                                            *)
(*                                                                         *)
(* A tick is a microsecond here. Where a model of Baton.tla counts small   *)
(* numbers, a store takes its clock: tokens and counts are exact here, and *)
(* so are the operators that say how it gets them. Each clock, token and   *)
(* count is told as its distance from a moment before the trace, since     *)
(* TLC's numbers have 32 bits.                                             *)
(*                                                                         *)
(* What Baton.tla leaves out of R5, because promises hold without it, does *)
(* refuse grants, and is here: Doubted.                                    *)
(*                                                                         *)
(* A store may be found as an earlier line has left it: a replica was      *)
(* promoted, or a server came back with an older file. The trace says as   *)
(* which (before), and so what befell the data. That nothing else befalls  *)
(* them is what is checked.                                                *)
(*                                                                         *)
(* Of the sidecars a store sees what they ask. They renew and release what *)
(* they were granted, and know no token that nobody had (Asks). The traces *)
(* of the simulation tell also until when each replica acts: nobody for    *)
(* longer than a lease after its last grant or renewal (R2), and no two at *)
(* once (P1). New terms have greater tokens (P2).                          *)
(***************************************************************************)
EXTENDS Baton, Integers, Sequences

CONSTANTS
    Traces,     \* each a sequence of lines, in the words below
    Slack       \* how inexact TTLs are: 0, or some where a Redis counts them in milliseconds

VARIABLES
    which,      \* the trace
    lines,      \* its lines
    at,         \* how many of its lines were followed
    kept,       \* how some lines have left the store: as they did that are still needed
    terms,      \* whoever was granted the role
    acting,     \* the replicas that lead, and until when they act
    said        \* the last grant or renewal of each token: when it was executed, and for how long

\* What tells one state from another: without the lines, which are many and stay the same.
tracing == <<which, at, kept, terms, acting, said, top>>

Line == lines[at + 1]

-----------------------------------------------------------------------------
(* The words of a trace. before: after which line the store was as this one found it, 0 for a store that knows nothing.  *)
(* keep: which lines' states are still needed after this one.                                                            *)

Asked(before, clock, time, generation, salt, asks, keep, m, told) ==
    [op |-> "asked", before |-> before, clock |-> clock, time |-> time, generation |-> generation, salt |-> salt,
     asks |-> asks, keep |-> keep, m |-> m, told |-> told]
Confirming(before, clock, generation, keep, token, counts) ==
    [op |-> "confirm", before |-> before, clock |-> clock, generation |-> generation, keep |-> keep, token |-> token,
     counts |-> counts]
Evicting(before, clock, generation, keep) ==
    [op |-> "evict", before |-> before, clock |-> clock, generation |-> generation, keep |-> keep]
Acting(time, keep, replica, token, until, starts) ==
    [op |-> "acts", time |-> time, keep |-> keep, replica |-> replica, token |-> token, until |-> until,
     starts |-> starts]

\* What is asked; age, left: how old a candidate's knowledge is, and for how long the lease should stand by it.
Campaigning(ses, att, lease, floor, seen, still, age, left) ==
    [op |-> "campaign", ses |-> ses, att |-> att, r |-> lease, floor |-> floor, seen |-> seen, still |-> still,
     age |-> age, left |-> left, noted |-> 0]
Renewing(ses, att, lease, token, count) ==
    [op |-> "renew", ses |-> ses, att |-> att, r |-> lease, token |-> token, count |-> count, noted |-> 0]
Releasing(ses, att, token) == [op |-> "release", ses |-> ses, att |-> att, token |-> token, noted |-> 0]

\* What is answered.
V(token, count, writer) == [token |-> token, count |-> count, writer |-> writer]
Grants(token, count) == [is |-> "granted", token |-> token, count |-> count]
Holds(version, token, holder, left) ==
    [is |-> "held", version |-> version, token |-> token, holder |-> holder, left |-> left]
Guards(version, left) == [is |-> "guarded", version |-> version, left |-> left]
Watches(version) == [is |-> "watch", version |-> version]
Stale(token, count) == [is |-> "stale", token |-> token, count |-> count]
Renews(count) == [is |-> "renewed", count |-> count]
Loses(token) == [is |-> "lost", token |-> token]
Says(is) == [is |-> is]

-----------------------------------------------------------------------------
(* How a real store gets what Baton.tla abstracts from. *)

\* Told with the line. Every change of it is what "replid" and "syncs" are about.
TracedGeneration(s) == Line.generation

\* A record that is new counts from the clock, and one that is watched further than anybody can have come.
TracedFresh(s, count) == Line.clock
TracedWatched(s, rec) == [rec EXCEPT !.writer = Nobody, !.count = Max(@ + 4096 + Line.salt, Line.clock)]

\* R3: above what is remembered, above what the candidate has seen, and above the clock.
TracedNextToken(s, rec, m) == 1 + Max(Max(rec.token, m.noted), Max(m.floor, Line.clock))

\* The lease is told with the request.
TracedLeaseOf(lease) == lease

\* A TTL is counted in whole milliseconds.
TracedRounding == 2000

\* R7: who has not heard under which token it was granted names the attempt alone; whoever releases in the place of a
\* process that has ended names the term alone.
TracedIsOf(lease, m) ==
    \/ lease.who = Me(m) /\ (m.token = 0 \/ lease.token = m.token)
    \/ m.att = 0 /\ m.token # 0 /\ lease.who.ses = m.ses /\ lease.token = m.token

-----------------------------------------------------------------------------
(* The store. *)

\* What is kept changes with the server's clock, which may be set forwards or back. A guard that is over, and that no
\* grant or renewal has ended yet, begins again when the clock is set back: it is below 0, and not 0.
Ended(left) == IF left = 0 THEN -1 ELSE left
Later(left, by) == IF left = 0 THEN 0 ELSE Ended(left - by)
Aged(d, by) ==
    [lease |-> IF HasLease(d) /\ d.lease.left > by THEN [d.lease EXCEPT !.left = @ - by] ELSE NoLease,
     rec |-> IF HasRecord(d) THEN [d.rec EXCEPT !.guard = Later(@, by), !.until = Later(@, by)] ELSE NoRecord]

\* Line 0: it knows nothing.
Unwritten == [d |-> Nothing, floor |-> 0, clock |-> Line.clock]
Found == IF Line.before = 0 THEN Unwritten ELSE kept[Line.before]

\* As it is found now. Where its server counts a TTL in milliseconds, a lease may be over a little sooner or later.
Befores ==
    LET by == Line.clock - Found.clock
        d == Aged(Found.d, by)
        left == Found.d.lease.left - by
        blurred == HasLease(Found.d) /\ left <= Slack /\ left >= -Slack
    IN  IF blurred THEN {[d EXCEPT !.lease = NoLease], [d EXCEPT !.lease = [Found.d.lease EXCEPT !.left = Max(left, 1)]]}
        ELSE {d}

\* R5 regression, and vanished as a candidate knows it. A record that is behind what the candidate has seen is shut; the
\* last term's token stays, because an incumbent may still renew. What is told of the floor is kept beside the record.
Doubted(s, d, floor, m) ==
    LET asked == LeaseOf(m.r)
        p == Prepared(s, d, asked)
        span == Span(p.rec, asked)
        cut == [p.rec EXCEPT !.guard = Min(@, span), !.until = Min(@, span)]
        behind == Max(cut.token, floor) < m.floor
        r1 == IF behind /\ cut.guard <= 0 THEN TracedWatched(s, Shut(cut, span)) ELSE cut
        knows == m.seen # Unknown /\ m.seen.token = r1.token
        renewed == m.seen.count < r1.count /\ m.age < (span * 5) \div 4
        early == m.seen.count = r1.count /\ m.left > 0
        gone == /\ ~HasLease(p) /\ ~r1.released /\ r1.writer # Nobody /\ r1.writer.ses # m.ses
                /\ ~StoodStill(r1, m, span) /\ r1.until <= Rounding
        r2 == IF gone /\ knows /\ (renewed \/ early) THEN Shut(r1, span) ELSE r1
    IN  [d |-> [p EXCEPT !.rec = r2], floor |-> IF behind THEN m.floor ELSE floor]

\* The step, and the floor after it.
Answer(s, d, floor, m, notices) ==
    LET plain == Step(s, d, [m EXCEPT !.noted = floor], notices)
        doubted == Doubted(s, d, floor, m)
        extends == plain.reply.is = "granted" /\ HasLease(d) /\ d.lease.who = Me(m) /\ d.rec.writer = Me(m)
    IN  IF m.op # "campaign" \/ plain.reply.is = "stale" \/ extends
        THEN [step |-> plain, floor |-> floor]
        ELSE IF plain.reply.is = "held"
        THEN [step |-> plain, floor |-> IF plain.d.rec.guard > 0 THEN doubted.floor ELSE floor]
        ELSE [step |-> Step(s, doubted.d, [m EXCEPT !.noted = doubted.floor], notices), floor |-> doubted.floor]

Near(one, other) == one - other <= Slack /\ other - one <= Slack

\* What the store said is what it has to say; d: what it keeps then.
Is(told, d, reply) ==
    /\ told.is = reply.is
    /\ CASE told.is = "granted" -> told.token = reply.token /\ told.count = reply.version.count
         [] told.is = "renewed" -> told.count = reply.version.count
         [] told.is = "held" -> /\ told.version = reply.version /\ told.token = d.lease.token
                                /\ told.holder = d.lease.who.ses /\ Near(told.left, d.lease.left)
         [] told.is = "guarded" -> told.version = reply.version /\ Near(told.left, d.rec.guard)
         [] told.is = "watch" -> told.version = reply.version
         [] told.is = "stale" -> told.token = reply.token /\ told.count = reply.version.count
         [] told.is = "lost" -> told.token = reply.token
         [] OTHER -> TRUE

\* What a sidecar may ask.
Asks(m) ==
    CASE m.op = "campaign" -> m.floor = 0 \/ \E term \in terms : term.token = m.floor
      [] m.op = "renew" -> [ses |-> m.ses, att |-> m.att, token |-> m.token] \in terms
      [] OTHER -> m.token = 0 \/ \E term \in terms : term.ses = m.ses /\ term.token = m.token

Keep(state) == [line \in Line.keep |-> IF line = at + 1 THEN state ELSE kept[line]]

\* Whoever may have died before it said what it did has done it, or nothing.
IsUnanswered == Line.told.is = "unanswered"

Executed ==
    LET m == Line.m IN
    /\ Asks(m)
    /\ \E d \in Befores :
        \/ /\ IsUnanswered
           /\ kept' = Keep([d |-> d, floor |-> Found.floor, clock |-> Line.clock])
           /\ UNCHANGED <<terms, said>>
        \/ \E notices \in IF Line.asks \/ m.op # "renew" \/ ~LeftBy(d, m) THEN {TRUE} ELSE BOOLEAN :
            LET answer == Answer(First, d, Found.floor, m, notices)
                reply == answer.step.reply
                term == [ses |-> m.ses, att |-> m.att, token |-> reply.token]
            IN  /\ IsUnanswered \/ Is(Line.told, answer.step.d, reply)
                /\ kept' = Keep([d |-> answer.step.d, floor |-> answer.floor, clock |-> Line.clock])
                /\ terms' = IF reply.is = "granted" THEN terms \cup {term} ELSE terms
                /\ said' = IF reply.is \in {"granted", "renewed"}
                           THEN (reply.token :> Line.time + LeaseOf(m.r)) @@ said ELSE said
    /\ UNCHANGED <<acting, top>>

\* R6: whether a grant that was acknowledged counts.
Confirmed ==
    /\ \E d \in Befores : Line.counts = Confirms(First, d, Line.token)
    /\ kept' = [line \in Line.keep |-> kept[line]]
    /\ UNCHANGED <<terms, said, acting, top>>

\* A lease went away.
Evicted ==
    /\ \E d \in Befores : kept' = Keep([d |-> [d EXCEPT !.lease = NoLease], floor |-> Found.floor, clock |-> Line.clock])
    /\ UNCHANGED <<terms, said, acting, top>>

\* R2, P1 and P2: until when a replica acts from now on.
Acts ==
    LET until(r) == IF r \in DOMAIN acting THEN acting[r] ELSE 0 IN
    /\ Line.token = 0 => Line.until <= Max(until(Line.replica), Line.time)
    /\ Line.token # 0 => Line.token \in DOMAIN said /\ Line.until <= said[Line.token]
    /\ \A r \in DOMAIN acting : r # Line.replica /\ Line.until > Line.time => acting[r] <= Line.time
    /\ Line.starts => Line.token > top
    /\ top' = IF Line.starts THEN Line.token ELSE top
    /\ acting' = (Line.replica :> Line.until) @@ acting
    /\ kept' = [line \in Line.keep |-> kept[line]]
    /\ UNCHANGED <<terms, said>>

-----------------------------------------------------------------------------
TraceInit ==
    /\ Init
    /\ LET traces == Traces IN \E trace \in DOMAIN traces : which = trace /\ lines = traces[trace]
    /\ at = 0 /\ kept = <<>> /\ terms = {} /\ acting = <<>> /\ said = <<>>

TraceNext ==
    /\ at < Len(lines)
    /\ CASE Line.op = "acts" -> Acts
         [] Line.op = "confirm" -> Confirmed
         [] Line.op = "evict" -> Evicted
         [] OTHER -> Executed
    /\ at' = at + 1
    /\ PrintT(<<"followed", which, at + 1>>)
    /\ UNCHANGED <<which, lines, db, srv, swing, proc, net, given, marks, faults, broken>>

TraceSpec == TraceInit /\ [][TraceNext]_tracing
=============================================================================
