package baton_test

import (
	"testing"

	baton "example.com/baton-sidecar-go"
	"example.com/baton-sidecar-go/internal/devtest"
)

const lease = "2s"

// A dev is a real `baton dev`, and clients of its replicas.
type dev struct{ *devtest.Dev }

func start(t *testing.T) dev {
	t.Helper()
	dev := dev{devtest.Start(t, devtest.FreePort(t), lease)}
	dev.Leader()
	return dev
}

func (d dev) client(replica int) *baton.Client {
	return client(d.Test, d.URL(replica))
}

func client(t *testing.T, url string) *baton.Client {
	t.Helper()
	client, err := baton.New(baton.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
