// Command client-go campaigns with client-go's leader election, in its usual timings unless a lease is given.
package main

import (
	"context"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"baton.bench/peers/line"
)

// What every controller of Kubernetes runs with.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

func main() {
	kubeconfig, name, identity := os.Args[2], os.Args[3], os.Args[4]
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		line.Fail(err)
	}
	if os.Args[1] == "hold" {
		hold(config, name, identity, line.LeaseOf(os.Args[5]))
		return
	}
	client, err := coordination.NewForConfig(config)
	if err != nil {
		line.Fail(err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	end := campaign(lock)
	line.Say("ready")
	line.Orders(func(order string) {
		switch order {
		case "resign":
			end()
			line.Say("resigned")
		case "campaign":
			end = campaign(lock)
		default:
			line.Say("left", left(lock))
		}
	})
}

// Campaigns until the returned function is called, which releases the lease.
func campaign(lock *resourcelock.LeaseLock) func() {
	ctx, cancel := context.WithCancel(context.Background())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { line.Say("leading") },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		line.Fail(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() { elector.Run(ctx) })
	return func() {
		cancel()
		ended.Wait()
	}
}

// What is left of the leader's lease, in milliseconds.
func left(lock *resourcelock.LeaseLock) any {
	record, _, err := lock.Get(context.Background())
	if err != nil {
		return "unknown"
	}
	return time.Until(record.RenewTime.Add(leaseDuration)).Milliseconds()
}
