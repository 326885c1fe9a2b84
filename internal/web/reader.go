package web

import (
	"context"
	"sync"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// reader reads for one look: what several pages need is asked for once.
type reader struct {
	*client.Client
	// viewer is on whose behalf it reads.
	viewer Viewer
	// store that commands must name.
	store      string
	server     *apipb.GetServerResponse
	partitions map[string]*apipb.Partition
	// cached are causes that were read for the look before, by what they are of, and
	// reread those of this look; nil: all are read. Apart is how long that took.
	cached, reread map[string]keptCauses
	apart          time.Duration
	// memory of causes that pages were made of before; nil: none is asked.
	memory *causeMemory
	// mutex guards reread.
	mutex sync.Mutex
}

// keptCauses are read again after restful times as long as it took.
type keptCauses struct {
	explanation *apipb.WhyResponse
	at          time.Time
	duration    time.Duration
}

func newReader(c *client.Client) *reader {
	return &reader{Client: c, partitions: map[string]*apipb.Partition{}}
}

func (r *reader) readServer(ctx context.Context) (*apipb.GetServerResponse, error) {
	if r.server != nil {
		return r.server, nil
	}
	response, err := r.Server.GetServer(ctx, &apipb.GetServerRequest{})
	if err == nil {
		r.server, r.store = response, response.Store
	}
	return response, err
}

func (r *reader) readPartition(ctx context.Context, id string) (*apipb.Partition, error) {
	if cached := r.partitions[id]; cached != nil {
		return cached, nil
	}
	if _, err := r.readServer(ctx); err != nil {
		return nil, err
	}
	response, err := r.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: id})
	if err != nil {
		return nil, err
	}
	r.partitions[id] = response.Partition
	return response.Partition, nil
}

// problem says what of a partition does not work in the server.
func (r *reader) problem(partition string) string {
	for _, health := range r.server.GetPartitions() {
		if health.Partition == partition && !health.Acting {
			return health.Problem
		}
	}
	return ""
}

// absent tells what is not there from what could not be read.
func absent(err error) bool { return fault.Is(err, fault.NotFound) }
