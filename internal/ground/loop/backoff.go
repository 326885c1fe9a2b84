package loop

import (
	"hash/fnv"
	"time"
)

// Backoff grows from First by doubling to Most.
type Backoff struct {
	First, Most time.Duration
}

// After returns the pause after the n-th failure in a row (from 1).
func (b Backoff) After(n int) time.Duration {
	pause := b.First
	for i := 1; i < n && pause < b.Most; i++ {
		pause *= 2
	}
	return min(pause, b.Most)
}

// Jitter spreads a pause over 80 % to 120 %, the same way for the same key and
// count, so that many keys do not fall due together and a run can be replayed.
func Jitter(pause time.Duration, key string, count int) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(key))
	h.Write([]byte{byte(count), byte(count >> 8)})
	part := time.Duration(h.Sum32() % 401)
	return pause*8/10 + pause*part/1000
}
