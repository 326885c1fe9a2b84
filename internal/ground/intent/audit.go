package intent

import "time"

// AuditRecord is one link of a chain: of a partition's, or, of no partition,
// of that of all together. Its JSON is how it is stored and exported.
type AuditRecord struct {
	Partition PartitionID `json:"partition,omitempty"`
	Number    uint64      `json:"n"`
	At        time.Time   `json:"at"`
	By        Actor       `json:"by"`
	// From is the remote address of the caller, and Token the id of the token
	// that was borne. Empty: what Lehr did by itself.
	From  string `json:"from,omitempty"`
	Token string `json:"token,omitempty"`
	// Verb is what was done: "admit", "close", "pin", "stop", ….
	Verb    string `json:"verb"`
	Subject string `json:"subject"`
	// Reason is what whoever did it said; Lehr itself says why in Detail.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Version of its link, and the link's first eight bytes, see package audit.
	Version int    `json:"v,omitempty"`
	Link    string `json:"link"`
}

// AuditEnd is how far a chain goes, by the note that is kept beside it.
type AuditEnd struct {
	Partition PartitionID
	// Number of the last record, 0 for none, and its whole link.
	Number uint64
	Link   Digest
}
