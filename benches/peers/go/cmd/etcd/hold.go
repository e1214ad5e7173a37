package main

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"baton.bench/peers/line"
)

// A term: it leads until the context of its session ends.
type term struct {
	ctx context.Context
	// The revision at which its key was made, which every later leader's is greater than.
	token int64
}

// hold campaigns, with a new session after each that was lost.
func hold(address, name, identity string, lease time.Duration) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{address}, DialTimeout: 20 * time.Second,
		DialKeepAliveTime: lease, DialKeepAliveTimeout: lease,
	})
	if err != nil {
		line.Fail(err)
	}
	var current atomic.Pointer[term]
	campaign := func() {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(lease.Seconds())))
		if err != nil {
			time.Sleep(lease / 10)
			return
		}
		election := concurrency.NewElection(session, name)
		if err := election.Campaign(session.Ctx(), identity); err == nil {
			current.Store(&term{session.Ctx(), election.Rev()})
			<-session.Done()
		}
		// Fails where the session is over already.
		_ = session.Close()
	}
	go func() {
		for {
			campaign()
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
