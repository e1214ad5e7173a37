// Package baton leads, locks and runs jobs by the Baton sidecar of this pod.
//
// What is done under a lead stands in a function whose context is cancelled before what the sidecar promised runs out,
// and the fencing token is to be had from the lead only: asking for it is the check.
//
//	client, err := baton.New(baton.Options{})
//	…
//	err = client.Leading(ctx, "scheduler", baton.LeadOptions{}, func(ctx context.Context, lead *baton.Lead) error {
//		return work(ctx, lead)
//	})
//
// No client can keep a process from acting while it is paused between a check and a write. The token does, where what
// is written to refuses smaller ones.
package baton
