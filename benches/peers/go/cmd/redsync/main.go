// Command redsync takes locks with redsync, as it is by default, on one Redis.
package main

import (
	"errors"
	"os"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"baton.bench/peers/line"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[2], PoolSize: 128})
	locks := redsync.New(goredis.NewPool(client))
	if os.Args[1] == "hold" {
		hold(locks, os.Args[3], line.LeaseOf(os.Args[5]))
		return
	}
	line.Say("ready")
	line.Orders(func(order string) {
		line.Run(order, func(name string) line.Lock {
			mutex := locks.NewMutex(name)
			take := func() error {
				for {
					// It gives up after 32 tries, and who wants the lock asks again.
					var taken *redsync.ErrTaken
					err := mutex.Lock()
					if !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken) {
						return err
					}
				}
			}
			give := func() error {
				_, err := mutex.Unlock()
				return err
			}
			return line.Lock{Take: take, Give: give}
		})
	})
}
