package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/leaderelection"
)

// One line of what an elector tells. Times are of CLOCK_MONOTONIC, so that others on this machine can compare them.
type event struct {
	AtNS     int64  `json:"at_ns"`
	Event    string `json:"event"`
	Identity string `json:"identity,omitempty"`
}

// teller tells of one campaign.
type teller struct {
	mutex         sync.Mutex
	leading, over bool
}

// started is called by client-go on a goroutine of its own, perhaps after the term has ended already.
func (t *teller) started() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !t.over {
		t.leading = true
		tell("started", "")
	}
}

// stopped is called by client-go at the end of every campaign, also by who never led.
func (t *teller) stopped() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.leading {
		tell("stopped", "")
	}
	t.leading, t.over = false, true
}

func tell(name, identity string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(event{now.Nano(), name, identity}); err != nil {
		fail(err)
	}
}

// elect campaigns until its standard input is closed. A line on it makes it resign; after a lease
// it campaigns again.
func elect(with settings) error {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
			lines <- struct{}{}
		}
	}()
	for {
		teller := new(teller)
		elector, err := newElector(with, teller)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			elector.Run(ctx)
		}()
		open, resigned := true, false
		select {
		case <-ended:
		case _, open = <-lines:
			// What is guarded by the lease must have stopped before client-go releases it.
			teller.stopped()
			resigned = true
		}
		cancel()
		<-ended
		if !open {
			return nil
		}
		if resigned {
			// Who resigns lets another lead.
			lastFor(with.leaseDuration)
		}
	}
}

// lastFor lets a pause last.
func lastFor(span time.Duration) {
	time.Sleep(span)
}

func newElector(with settings, teller *teller) (*leaderelection.LeaderElector, error) {
	lock, err := lock(with)
	if err != nil {
		return nil, err
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   with.leaseDuration,
		RenewDeadline:   with.renewDeadline,
		RetryPeriod:     with.retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { teller.started() },
			OnStoppedLeading: teller.stopped,
			OnNewLeader:      func(identity string) { tell("leader", identity) },
		},
	})
}
