package intent

import "time"

// Verification is one that is under way in an environment. While its row is there, nothing is
// pushed to the environment's assets, and nothing else is done to the environment by delivery.
type Verification struct {
	// Partition of the environment, and Home of the application.
	Partition   PartitionID `json:"partition"`
	Home        PartitionID `json:"home"`
	Application string      `json:"application"`
	Environment string      `json:"environment"`
	Name        string      `json:"name"`
	// Version and Content that the environment had when it began: the result is of these alone.
	Version VersionName `json:"version"`
	Content Digest      `json:"content"`
	// Head is the newest incarnation of which it is known that the environment has that content
	// there. Of a newer one nothing is pushed in the partition, until somebody has looked.
	Head   IncarnationID `json:"head"`
	Assets []AssetID     `json:"assets"`
	// Epoch of the lease under which it was begun: who has another cannot know whether it ended.
	Epoch uint64    `json:"epoch"`
	Began time.Time `json:"began"`
	// Until is when it has ended, whatever became of who began it.
	Until time.Time `json:"until"`
}

// Same reports whether two are one: of one environment, begun at one time under one lease.
func (v Verification) Same(other Verification) bool {
	return v.Partition == other.Partition && v.Home == other.Home && v.Application == other.Application && v.Environment == other.Environment &&
		v.Name == other.Name && v.Epoch == other.Epoch && v.Began.Equal(other.Began)
}
