// Package clientgo leads by the Baton sidecar of this pod where a program leads by a Lease of Kubernetes: it is a lock
// for k8s.io/client-go/tools/leaderelection, and so for the manager of controller-runtime.
//
//	lock, err := clientgo.New(client, "scheduler", clientgo.Options{})
//	…
//	leaderelection.RunOrDie(ctx, lock.Config(callbacks))
//	err = lock.Wait(context.Background())
//
// The elector stops before what the sidecar promised has run out, and the fencing token is to be had from the lock:
// asking for it is the check. What a process does between a check and a write, while it is paused, no lock can prevent;
// nor that an elector which was paused takes itself for the leader for a while, though it has no token any more.
package clientgo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	baton "example.com/baton-sidecar-go"
)

// other is the holder where this lock is not: the sidecar's /status knows more.
const other = "(another replica, or none)"

// Options may be left empty.
type Options struct {
	// Identity is what the elector calls this replica; the host's name if it is empty.
	Identity string
	// Lead says who acts upon the lead, and for how long a step takes.
	Lead baton.LeadOptions
	// Timings are the elector's.
	Timings Timings
}

// Lock is a role that the sidecar leads, for one elector at a time. It asks for the lead from the elector's first
// question on. A lead of which the elector was told is kept until the elector has stopped and its work has, which only
// callbacks of [Lock.Config] say; else until the process ends. Until then the elector is told of no other.
type Lock struct {
	client   *baton.Client
	role     string
	identity string
	options  baton.LeadOptions
	timings  Timings

	mutex sync.Mutex
	// Ends the asking for leads. Never nil.
	cancel context.CancelFunc
	// Closed when that has ended. Nil before there was any.
	ended chan struct{}
	// Why it has, if the sidecar refuses; the elector is told once.
	refused error
	// The latest lead. Nil before there is one, and when it has been given back.
	term *term
	gets uint64
}

// A term is one lead. What changes is under the lock's mutex.
type term struct {
	lead *baton.Lead
	// Over with the lead.
	ctx context.Context
	// Closed when nobody acts upon it any more.
	left chan struct{}

	// What the elector wrote when it was told of it last. Nil: it never was, and so nobody acts upon it.
	record *resourcelock.LeaderElectionRecord
	// Whether OnStartedLeading has not returned, and whether OnStoppedLeading has.
	isWorking, hasStopped bool
}

var _ resourcelock.Interface = (*Lock)(nil)

// New makes a lock. It asks nothing yet. The error says which timing is impossible.
func New(client *baton.Client, role string, options Options) (*Lock, error) {
	if options.Timings == (Timings{}) {
		options.Timings = DefaultTimings
	}
	if err := options.Timings.check(); err != nil {
		return nil, err
	}
	if options.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("an Identity is wanted, for the host's name is not known: %w", err)
		}
		options.Identity = host
	}
	return &Lock{
		client: client, role: role, identity: options.Identity, options: options.Lead, timings: options.Timings,
		cancel: func() {},
	}, nil
}

// Config is the elector's configuration: this lock, its timings and the callbacks. The context of OnStartedLeading is
// cancelled when the lead is over, too, which is earlier than the elector notices. OnStartedLeading is to return when
// all of its work has stopped: when it and OnStoppedLeading have returned, the sidecar is told so, and not before.
func (l *Lock) Config(callbacks leaderelection.LeaderCallbacks) leaderelection.LeaderElectionConfig {
	if work := callbacks.OnStartedLeading; work != nil {
		callbacks.OnStartedLeading = func(ctx context.Context) { l.work(ctx, work) }
	}
	if stopped := callbacks.OnStoppedLeading; stopped != nil {
		callbacks.OnStoppedLeading = func() {
			defer l.stop()
			stopped()
		}
	}
	return leaderelection.LeaderElectionConfig{
		Lock:          l,
		LeaseDuration: l.timings.LeaseDuration,
		RenewDeadline: l.timings.RenewDeadline,
		RetryPeriod:   l.timings.RetryPeriod,
		Callbacks:     callbacks,
		Name:          l.role,
	}
}

// Durations are LeaseDuration, RenewDeadline and RetryPeriod, as the manager of controller-runtime takes them.
func (l *Lock) Durations() (leaseDuration, renewDeadline, retryPeriod *time.Duration) {
	timings := l.timings
	return &timings.LeaseDuration, &timings.RenewDeadline, &timings.RetryPeriod
}

// Token is the fencing token. Ask for it each time that something is written with it: that is the check. The error is
// [baton.ErrLost] when the lead is over, or the elector was not told of it.
func (l *Lock) Token() (uint64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.term == nil || l.term.record == nil {
		return 0, fmt.Errorf("%w: the elector does not lead", baton.ErrLost)
	}
	return l.term.lead.Token()
}

// Wait waits until the elector and its work have stopped, as callbacks of [Lock.Config] say, and the sidecar has been
// told so. The error is the cause of ctx, if that is over before.
func (l *Lock) Wait(ctx context.Context) error {
	l.mutex.Lock()
	ended := l.ended
	l.mutex.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the elector or its work may go on: %w", context.Cause(ctx))
	}
}

// Get is for the elector. It says that nobody leads where Update might succeed, and that another does where the elector
// is to wait. The error is how the sidecar refuses to be asked for this role.
func (l *Lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.refused; err != nil {
		l.refused = nil
		return nil, nil, err
	}
	l.begin()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: other, LeaseDurationSeconds: 1}
	switch term := l.term; {
	case term == nil || term.hasStopped || term.remaining() == 0:
	case term.record == nil:
		record.HolderIdentity = ""
	default:
		record = *term.record
	}
	// The elector waits for as long as a record changes, and that is what it compares.
	l.gets++
	return &record, fmt.Append(nil, l.gets), nil
}

// Create is for the elector: see Update.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update is for the elector. It tells it that it leads, if the lead lasts for LeaseDuration, and if it is the lead of
// which the elector was told before. Giving the lead up (ReleaseOnCancel) changes nothing: the elector does that before
// its work has stopped.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if record.HolderIdentity == "" {
		return nil
	}
	term := l.term
	// A renewal's context ends with the elector's RenewDeadline, at the latest.
	ends, hasEnd := ctx.Deadline()
	isLonger := hasEnd && term != nil && term.record != nil && time.Until(ends) > l.timings.RenewDeadline
	if isLonger || record.LeaseDurationSeconds != l.timings.leaseSeconds() {
		return errors.New("the elector's timings are not the lock's: take all three from Config or Durations")
	}
	switch {
	case term == nil:
		return errors.New("this replica does not lead")
	case term.hasStopped:
		return errors.New("the work of an earlier run has not stopped: OnStartedLeading has not returned")
	}
	if left := term.remaining(); left == 0 {
		return errors.New("the lead is over")
	} else if left <= l.timings.LeaseDuration {
		return fmt.Errorf("the lead lasts for %v, which is not longer than LeaseDuration, %v: if this is so again and "+
			"again, the timings are too long for the role's answerValidity", left, l.timings.LeaseDuration)
	}
	term.record = &record
	return nil
}

// RecordEvent is for the elector. There is nothing to record them in.
func (l *Lock) RecordEvent(string) {}

// Identity is what the elector calls this replica.
func (l *Lock) Identity() string {
	return l.identity
}

// Describe is for the elector's log.
func (l *Lock) Describe() string {
	return "role " + l.role + " of the Baton sidecar"
}

// remaining is zero when the lead is over, or is not asked for any longer.
func (t *term) remaining() time.Duration {
	if t.ctx.Err() != nil {
		return 0
	}
	return t.lead.Left()
}

// begin sees to it that there is a goroutine that asks for leads. With the mutex.
func (l *Lock) begin() {
	if l.ended != nil {
		select {
		case <-l.ended:
		default:
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l.cancel, l.ended = cancel, ended
	go func() {
		defer close(ended)
		err := l.client.Leading(ctx, l.role, l.options, l.keep)
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if ctx.Err() == nil {
			l.refused = err
		}
	}()
}

// keep keeps a lead while anybody may act upon it. When it returns, the sidecar is told that the work has stopped.
func (l *Lock) keep(ctx context.Context, lead *baton.Lead) error {
	term := &term{lead: lead, ctx: ctx, left: make(chan struct{})}
	l.mutex.Lock()
	l.term = term
	l.mutex.Unlock()
	<-ctx.Done()
	l.mutex.Lock()
	wasTold := term.record != nil
	l.mutex.Unlock()
	if wasTold {
		<-term.left
	}
	return ctx.Err()
}

// work calls OnStartedLeading. The elector starts it beside itself, so it may have stopped before this begins.
func (l *Lock) work(ctx context.Context, work func(context.Context)) {
	l.mutex.Lock()
	term := l.term
	if ctx.Err() != nil {
		l.mutex.Unlock()
		return
	}
	term.isWorking = true
	l.mutex.Unlock()
	defer func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		term.isWorking = false
		l.leave()
	}()
	// Not cancelled at the return: the elector does that, and goroutines of a work that breaks the rule go on until then.
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(term.ctx, func() { cancel(context.Cause(term.ctx)) })
	work(ctx)
}

// stop hears that the elector has stopped. Its work may not have.
func (l *Lock) stop() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.term != nil && l.term.record != nil {
		l.term.hasStopped = true
		l.leave()
	} else {
		l.cancel()
	}
}

// leave gives the lead back, if nobody acts upon it any longer. With the mutex.
func (l *Lock) leave() {
	if term := l.term; term.hasStopped && !term.isWorking {
		l.term = nil
		l.cancel()
		close(term.left)
	}
}
