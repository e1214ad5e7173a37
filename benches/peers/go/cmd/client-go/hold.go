package main

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"baton.bench/peers/line"
)

// A term as the callback is told of it: it leads until the context ends.
type term struct {
	ctx   context.Context
	token int64
}

// hold campaigns with the usual timings, shortened in proportion, and again after each loss, as a program does that
// ends then and is started again.
func hold(config *rest.Config, name, identity string, lease time.Duration) {
	inProportion := func(usual time.Duration) time.Duration {
		return time.Duration(float64(lease) * usual.Seconds() / leaseDuration.Seconds())
	}
	deadline := inProportion(renewDeadline)
	// As resourcelock.NewFromKubeconfig has it.
	config.Timeout = max(time.Second, deadline/2)
	client, err := coordination.NewForConfig(config)
	if err != nil {
		line.Fail(err)
	}
	lock := resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	// The elector's own keeps what it has read.
	reader := lock
	var current atomic.Pointer[term]
	started := func(ctx context.Context) {
		for ctx.Err() == nil {
			record, _, err := reader.Get(ctx)
			if err == nil && record.HolderIdentity == identity {
				// It counts the holders. One more, since 0 is none.
				current.Store(&term{ctx, int64(record.LeaderTransitions) + 1})
				return
			}
		}
	}
	go func() {
		for {
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock:          &lock,
				LeaseDuration: lease,
				RenewDeadline: deadline,
				RetryPeriod:   inProportion(retryPeriod),
				Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: started, OnStoppedLeading: func() {}},
			})
			if err != nil {
				line.Fail(err)
			}
			elector.Run(context.Background())
		}
	}()
	line.Holds(func() line.Claim {
		told := current.Load()
		if told == nil || told.ctx.Err() != nil {
			return line.Claim{}
		}
		return line.Claim{Held: true, Token: told.token}
	})
}
