package clientgo

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// An app is one run of client-go's elector.
type app struct {
	lock   *Lock
	cancel context.CancelFunc
	// Closed when the elector's Run has returned.
	ran chan struct{}
	// How long the work takes to stop.
	winding time.Duration

	mutex   sync.Mutex
	token   uint64
	started time.Time
	worked  time.Time
	stopped time.Time
	// What was left of the lead when the elector stopped.
	left time.Duration
}

func run(t *testing.T, lock *Lock, winding time.Duration) *app {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	app := &app{lock: lock, cancel: cancel, ran: make(chan struct{}), winding: winding}
	config := lock.Config(leaderelection.LeaderCallbacks{OnStartedLeading: app.work, OnStoppedLeading: app.stop})
	config.ReleaseOnCancel = true
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(app.ran)
		elector.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-app.ran
		if err := lock.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return app
}

func (a *app) work(ctx context.Context) {
	token, err := a.lock.Token()
	a.mutex.Lock()
	if err == nil {
		a.token, a.started = token, time.Now()
	}
	a.mutex.Unlock()
	<-ctx.Done()
	// The fault: it goes on for so long.
	<-time.After(a.winding)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.worked = time.Now()
}

func (a *app) stop() {
	a.lock.mutex.Lock()
	term := a.lock.term
	a.lock.mutex.Unlock()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.stopped = time.Now()
	if term != nil {
		a.left = term.lead.Left()
	}
}

func (a *app) leads() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return !a.started.IsZero()
}

// wantOrder wants that all of the first has ended before the second has begun.
func wantOrder(t *testing.T, first, second *app) {
	t.Helper()
	until(t, "the other's elector leads", second.leads)
	<-first.ran
	first.mutex.Lock()
	second.mutex.Lock()
	defer first.mutex.Unlock()
	defer second.mutex.Unlock()
	t.Logf("the work ended %v and the elector stopped %v before the other started",
		second.started.Sub(first.worked), second.started.Sub(first.stopped))
	if first.worked.IsZero() || !first.worked.Before(second.started) || !first.stopped.Before(second.started) {
		t.Error("two at a time")
	}
	if second.token <= first.token {
		t.Errorf("token %d after %d", second.token, first.token)
	}
}

func (d dev) twoApps(winding time.Duration) (first int, leader, follower *app) {
	d.Test.Helper()
	first = d.Leader()
	leader = run(d.Test, d.lock(first), winding)
	follower = run(d.Test, d.lock(1-first), winding)
	until(d.Test, "the leader's elector leads", leader.leads)
	return first, leader, follower
}

func TestWhenTheLeaderResignsItsElectorStopsBeforeTheOtherStarts(t *testing.T) {
	dev := start(t)
	first, leader, follower := dev.twoApps(0)
	dev.Resign(first, "1m")
	wantOrder(t, leader, follower)
}

func TestWhenTheSidecarIsKilledItsElectorStopsBeforeTheOtherStarts(t *testing.T) {
	dev := start(t)
	first, leader, follower := dev.twoApps(0)
	dev.Kill(first)
	wantOrder(t, leader, follower)
}

func TestWhenTheSidecarIsFrozenTheElectorStopsBeforeItsLeadIsOver(t *testing.T) {
	dev := start(t)
	_, leader, _ := dev.twoApps(0)
	dev.freeze()
	<-leader.ran
	leader.mutex.Lock()
	defer leader.mutex.Unlock()
	t.Logf("%v were left of the lead", leader.left)
	if leader.left <= 0 {
		t.Error("it stopped too late")
	}
}

func TestWhenTheElectorIsCancelledTheOtherStartsAfterTheWork(t *testing.T) {
	dev := start(t)
	_, leader, follower := dev.twoApps(time.Second)
	leader.cancel()
	<-leader.ran
	if err := leader.lock.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := time.Now()
	wantOrder(t, leader, follower)
	if took := follower.started.Sub(said); took > 2*time.Second {
		t.Errorf("the other waited for %v, though all had been said", took)
	}
}

func TestASecondRunLeadsAgainUnderAGreaterToken(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	lock := dev.lock(first)
	earlier := run(t, lock, 0)
	until(t, "the elector leads", earlier.leads)
	dev.Resign(first, "1s")
	<-earlier.ran
	later := run(t, lock, 0)
	dev.AnotherLeads(first)
	dev.Resign(1-first, "1m")
	wantOrder(t, earlier, later)
}
