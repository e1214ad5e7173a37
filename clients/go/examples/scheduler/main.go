package main

import (
	"context"
	"fmt"
	"log"
	"time"

	baton "example.com/baton-sidecar-go"
)

func main() {
	client, err := baton.New(baton.Options{})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(client.Leading(context.Background(), "scheduler", baton.LeadOptions{}, work))
}

func work(ctx context.Context, lead *baton.Lead) error {
	for {
		token, err := lead.Token()
		if err != nil {
			return err
		}
		fmt.Println("acting with token", token)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
