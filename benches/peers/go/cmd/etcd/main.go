// Command etcd campaigns with etcd's own elections.
package main

import (
	"context"
	"os"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"baton.bench/peers/line"
)

func main() {
	address, name, identity := os.Args[2], os.Args[3], os.Args[4]
	leaseMS, err := strconv.Atoi(os.Args[5])
	if err != nil {
		line.Fail(err)
	}
	if os.Args[1] == "hold" {
		hold(address, name, identity, line.LeaseOf(os.Args[5]))
		return
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 20 * time.Second})
	if err != nil {
		line.Fail(err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(leaseMS/1000))
	if err != nil {
		line.Fail(err)
	}
	election := concurrency.NewElection(session, name)
	campaign := func() {
		if err := election.Campaign(context.Background(), identity); err != nil {
			line.Fail(err)
		}
		line.Say("leading")
	}
	go campaign()
	line.Say("ready")
	line.Orders(func(order string) {
		switch order {
		case "resign":
			if err := election.Resign(context.Background()); err != nil {
				line.Fail(err)
			}
			line.Say("resigned")
		case "campaign":
			go campaign()
		default:
			line.Say("left", left(client, name))
		}
	})
}

// What is left of the leader's lease, in milliseconds: etcd tells whole seconds, rounded down.
func left(client *clientv3.Client, name string) any {
	found, err := client.Get(context.Background(), name+"/", clientv3.WithFirstCreate()...)
	if err != nil || len(found.Kvs) == 0 {
		return "unknown"
	}
	lease, err := client.TimeToLive(context.Background(), clientv3.LeaseID(found.Kvs[0].Lease))
	if err != nil {
		return "unknown"
	}
	return lease.TTL * 1000
}
