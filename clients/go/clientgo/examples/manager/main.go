package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	baton "example.com/baton-sidecar-go"
	"example.com/baton-sidecar-go/clientgo"
)

func main() {
	client, err := baton.New(baton.Options{})
	if err != nil {
		log.Fatal(err)
	}
	lock, err := clientgo.New(client, "scheduler", clientgo.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctrl.SetLogger(klog.Background())
	options := ctrl.Options{}
	// Two of them on one machine would want the same port.
	options.Metrics.BindAddress = "0"
	options.LeaderElection = true
	options.LeaderElectionResourceLockInterface = lock
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = lock.Durations()
	m, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		log.Fatal(err)
	}
	err = m.Add(manager.RunnableFunc(func(ctx context.Context) error { return work(ctx, lock) }))
	if err != nil {
		log.Fatal(err)
	}
	// Work may go on when Start has returned: it ends with the process, which the sidecar notices.
	if err := m.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, lock *clientgo.Lock) error {
	for {
		token, err := lock.Token()
		if err != nil {
			return err
		}
		fmt.Println("acting with token", token)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
