package clientgo

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	baton "example.com/baton-sidecar-go"
	"example.com/baton-sidecar-go/internal/devtest"
)

// For promises of 3 s, of which between 1.7 s and 2.7 s are left.
var short = Timings{
	LeaseDuration: 1500 * time.Millisecond,
	RenewDeadline: time.Second,
	RetryPeriod:   300 * time.Millisecond,
}

// update is what an elector does to lead, and to go on.
func (l *Lock) update() error {
	return l.Update(context.Background(), resourcelock.LeaderElectionRecord{
		HolderIdentity: l.identity, LeaseDurationSeconds: l.timings.leaseSeconds(),
	})
}

func (l *Lock) holder(t *testing.T) string {
	t.Helper()
	record, _, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.HolderIdentity
}

func (l *Lock) leads(t *testing.T) bool {
	t.Helper()
	l.holder(t)
	return l.update() == nil
}

// An elector whose steps the test takes. Its work goes on until ends is closed.
type elector struct {
	begun, ends chan struct{}
	callbacks   leaderelection.LeaderCallbacks
}

func electorOf(lock *Lock) *elector {
	elector := &elector{begun: make(chan struct{}), ends: make(chan struct{})}
	elector.callbacks = lock.Config(leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			close(elector.begun)
			<-elector.ends
		},
		OnStoppedLeading: func() {},
	}).Callbacks
	return elector
}

func (e *elector) starts(t *testing.T) {
	t.Helper()
	go e.callbacks.OnStartedLeading(context.WithoutCancel(t.Context()))
	<-e.begun
}

func wantDone(t *testing.T, lock *Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), devtest.Patience)
	defer cancel()
	if err := lock.Wait(ctx); err != nil {
		t.Error(err)
	}
}

func wantGoingOn(t *testing.T, lock *Lock) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lock.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: that it goes on is wanted", err)
	}
}

func wantNoToken(t *testing.T, lock *Lock) {
	t.Helper()
	if token, err := lock.Token(); !errors.Is(err, baton.ErrLost) {
		t.Errorf("token %d, %v: none is wanted", token, err)
	}
}

func wantHeard(t *testing.T, sidecar *sidecar, want string) {
	t.Helper()
	if heard := sidecar.heard(); heard != want {
		t.Errorf("the sidecar has heard %s: %s is wanted", heard, want)
	}
}

func TestTheElectorIsToldThatItLeadsOnlyWhileTheLeadLastsForItsTimings(t *testing.T) {
	sidecar := fake(t)
	sidecar.now(true, 1, 1600*time.Millisecond)
	lock := sidecar.lock(t)
	if holder := lock.holder(t); holder != other {
		t.Errorf("%q holds it before there is a lead", holder)
	}
	wantError(t, lock.update(), "does not lead")
	until(t, "a lead", func() bool { return lock.holder(t) == "" })
	wantError(t, lock.update(), "answerValidity")
	wantNoToken(t, lock)
	sidecar.now(true, 1, 3*time.Second)
	until(t, "it leads", func() bool { return lock.leads(t) })
	if token, err := lock.Token(); err != nil || token != 1 || lock.holder(t) != lock.identity {
		t.Errorf("token %d, %v", token, err)
	}
	// The promises become shorter: the lead is not over, and the elector is to stop.
	sidecar.now(true, 1, 1600*time.Millisecond)
	until(t, "it is not told any more", func() bool { return lock.update() != nil })
	wantError(t, lock.update(), "answerValidity")
	if _, err := lock.Token(); err != nil {
		t.Error(err)
	}
}

func TestAnElectorWithOtherTimingsIsToldSo(t *testing.T) {
	lock := fake(t).lock(t)
	until(t, "a lead", func() bool { return lock.holder(t) == "" })
	record := resourcelock.LeaderElectionRecord{HolderIdentity: lock.identity, LeaseDurationSeconds: 15}
	wantError(t, lock.Create(t.Context(), record), "timings are not the lock's")
	wantNoToken(t, lock)
	// A LeaseDuration of the same whole seconds, but a longer RenewDeadline, as a renewal shows. The first context is the
	// program's own.
	record.LeaseDurationSeconds = 1
	long, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
	defer cancel()
	if err := lock.Update(long, record); err != nil {
		t.Fatal(err)
	}
	wantError(t, lock.Update(long, record), "timings are not the lock's")
}

func TestTheElectorHearsOfNoOtherTermUntilItHasStopped(t *testing.T) {
	sidecar := fake(t)
	lock := sidecar.lock(t)
	elector := electorOf(lock)
	until(t, "it leads", func() bool { return lock.leads(t) })
	elector.starts(t)
	close(elector.ends)

	sidecar.now(true, 2, 3*time.Second)
	until(t, "the lead is over", func() bool { return lock.holder(t) == other })
	wantError(t, lock.update(), "over")
	wantNoToken(t, lock)
	// It may still act, so nobody was told, and no other lead is asked for.
	wantHeard(t, sidecar, "1 []")

	elector.callbacks.OnStoppedLeading()
	wantDone(t, lock)
	wantHeard(t, sidecar, "1 [hold-1]")
	wantNoToken(t, lock)
	until(t, "it leads again", func() bool { return lock.leads(t) })
	if token, err := lock.Token(); err != nil || token != 2 {
		t.Errorf("token %d, %v", token, err)
	}
}

func TestNothingIsSaidBeforeTheElectorAndItsWorkHaveStopped(t *testing.T) {
	sidecar := fake(t)
	lock := sidecar.lock(t)
	elector := electorOf(lock)
	until(t, "it leads", func() bool { return lock.leads(t) })
	elector.starts(t)
	// So does an elector with ReleaseOnCancel, when it stops.
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
		t.Error(err)
	}
	elector.callbacks.OnStoppedLeading()
	wantError(t, lock.update(), "has not returned")
	if holder := lock.holder(t); holder != other {
		t.Errorf("%q may lead beside work that goes on", holder)
	}
	// A further run that stops before it has led changes nothing.
	elector.callbacks.OnStoppedLeading()
	wantGoingOn(t, lock)
	wantHeard(t, sidecar, "1 []")
	if _, err := lock.Token(); err != nil {
		t.Errorf("%v: the lead is kept, and its work may end with it", err)
	}
	close(elector.ends)
	wantDone(t, lock)
	wantHeard(t, sidecar, "1 [hold-1]")
}

func TestWorkIsNotCalledOnceTheElectorHasStopped(t *testing.T) {
	lock := fake(t).lock(t)
	elector := electorOf(lock)
	until(t, "it leads", func() bool { return lock.leads(t) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	elector.callbacks.OnStoppedLeading()
	elector.callbacks.OnStartedLeading(ctx)
	select {
	case <-elector.begun:
		t.Error("work is called")
	default:
	}
	wantDone(t, lock)
}

func TestAnElectorThatStopsBeforeItLeadsKeepsNothing(t *testing.T) {
	sidecar := fake(t)
	sidecar.now(false, 0, 0)
	lock := sidecar.lock(t)
	elector := electorOf(lock)
	wantDone(t, lock)
	lock.holder(t)
	wantGoingOn(t, lock)
	elector.callbacks.OnStoppedLeading()
	wantDone(t, lock)
	wantHeard(t, sidecar, "0 []")

	sidecar.now(true, 1, 3*time.Second)
	until(t, "a lead", func() bool { return lock.holder(t) == "" })
	elector.callbacks.OnStoppedLeading()
	wantError(t, lock.update(), "over")
	wantDone(t, lock)
	wantHeard(t, sidecar, "1 [hold-1]")
}

func TestWithoutConfigALeadIsKeptAndThereIsNoOther(t *testing.T) {
	sidecar := fake(t)
	lock := sidecar.lock(t)
	until(t, "it leads", func() bool { return lock.leads(t) })
	lock.RecordEvent("stopped leading")
	if _, err := lock.Token(); err != nil {
		t.Errorf("%v: nobody knows that the work has stopped", err)
	}
	sidecar.now(true, 2, 3*time.Second)
	until(t, "the lead is over", func() bool { return lock.holder(t) == other })
	wantNoToken(t, lock)
	wantGoingOn(t, lock)
	wantHeard(t, sidecar, "1 []")
}

// late is a lock whose elector stands still when it has just been told that it leads, until the lead is over.
type late struct {
	*Lock
	sidecar *sidecar
	t       *testing.T
}

func (l late) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Lock.Update(ctx, record)
	if err == nil {
		l.sidecar.now(false, 0, 0)
		until(l.t, "the lead is over", func() bool { _, err := l.Token(); return err != nil })
	}
	return err
}

func TestWorkOfAnElectorThatStoodStillIsCancelledAndHasNoToken(t *testing.T) {
	sidecar := fake(t)
	lock := sidecar.lock(t)
	var cause error
	config := lock.Config(leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			wantNoToken(t, lock)
			<-ctx.Done()
			cause = context.Cause(ctx)
			wantNoToken(t, lock)
		},
		OnStoppedLeading: func() {},
	})
	config.Lock = late{lock, sidecar, t}
	leaderelection.RunOrDie(t.Context(), config)
	wantDone(t, lock)
	if !errors.Is(cause, baton.ErrLost) {
		t.Errorf("%v: that the lead is over is wanted", cause)
	}
}

func TestNoGoroutineStaysBehindARun(t *testing.T) {
	sidecar := fake(t)
	lock := sidecar.lock(t)
	lead := func() {
		leads := make(chan struct{})
		config := lock.Config(leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { close(leads); <-ctx.Done() },
			OnStoppedLeading: func() {},
		})
		go func() { <-leads; sidecar.now(false, 0, 0) }()
		sidecar.now(true, 1, 3*time.Second)
		leaderelection.RunOrDie(t.Context(), config)
		wantDone(t, lock)
	}
	before := runtime.NumGoroutine()
	for range 3 {
		lead()
	}
	until(t, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
	wantHeard(t, sidecar, "3 [hold-1 hold-2 hold-3]")
}

func TestWhoMayNotIsTold(t *testing.T) {
	lock := fake(t).lock(t)
	lock.role = "nobody"
	for range 2 {
		until(t, "a refusal", func() bool {
			_, _, err := lock.Get(t.Context())
			var refused *baton.Refused
			return errors.As(err, &refused) && refused.Status == 404
		})
	}
}

func TestImpossibleTimingsAreRefused(t *testing.T) {
	for part, timings := range map[string]Timings{
		"RetryPeriod 0s":     {LeaseDuration: 3 * time.Second, RenewDeadline: time.Second},
		"RenewDeadline 1.2s": {3 * time.Second, 1200 * time.Millisecond, time.Second},
		// Longer than RenewDeadline, but the elector pauses before it begins to try.
		"LeaseDuration 2.6s": {2600 * time.Millisecond, 2 * time.Second, 500 * time.Millisecond},
	} {
		_, err := New(nil, "scheduler", Options{Timings: timings})
		wantError(t, err, part)
	}
	lock, err := New(nil, "scheduler", Options{})
	if err != nil || lock.Identity() == "" {
		t.Fatalf("%q: %v", lock.Identity(), err)
	}
	lease, renew, retry := lock.Durations()
	if (Timings{*lease, *renew, *retry}) != DefaultTimings {
		t.Error("other timings than the default")
	}
}
