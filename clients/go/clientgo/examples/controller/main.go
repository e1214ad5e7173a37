package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/leaderelection"

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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	leaderelection.RunOrDie(ctx, lock.Config(leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) { work(ctx, lock) },
		OnStoppedLeading: func() { fmt.Println("stopped leading") },
	}))
	// Until work has returned, and the sidecar knows.
	if err := lock.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, lock *clientgo.Lock) {
	for {
		token, err := lock.Token()
		if err != nil {
			return
		}
		fmt.Println("acting with token", token)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
