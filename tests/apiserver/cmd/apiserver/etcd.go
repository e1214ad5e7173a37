package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts an etcd that keeps its data in a folder, and says where it listens and how it is ended.
func startEtcd(folder string) (string, func(), error) {
	config := embed.NewConfig()
	config.Dir = folder
	config.LogLevel = "error"
	// What a killed process has written is still there: only a machine that crashes would lose it.
	config.UnsafeNoFsync = true
	// A socket in our own folder: no port that somebody else could take or find.
	client := url.URL{Scheme: "unix", Path: filepath.Join(filepath.Dir(folder), "etcd.sock")}
	config.ListenClientUrls = []url.URL{client}
	// It has no peers, but listens for them; the kernel chooses where.
	config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return "", nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return client.String(), etcd.Close, nil
	case err := <-etcd.Err():
		return "", nil, fmt.Errorf("etcd: %w", err)
	case <-time.After(startMax):
		etcd.Close()
		return "", nil, fmt.Errorf("etcd is not ready after %v", startMax)
	}
}
