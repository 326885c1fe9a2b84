package intent

// RolloutProposal is a pull request of a run that sets or restores fields of a document in a
// repository.
type RolloutProposal struct {
	// Run that asked for it. A run that replaces another one closes that one's pull requests.
	Run uint64 `json:"run"`
	// Key names its branch.
	Key      string `json:"key"`
	Document string `json:"document"`
	// Host is the operator's name of the git host.
	Host string `json:"host"`
	// Base is the commit that the decision rests on.
	Base     string   `json:"base"`
	Pointers []string `json:"pointers"`
	// Back: the fields get their earlier values.
	Back bool `json:"back,omitempty"`
	// Reason is the message of its commit.
	Reason  string        `json:"reason"`
	State   ProposalState `json:"state"`
	Request PullRequest   `json:"request,omitzero"`
	// Trouble is why the last try failed, or empty.
	Trouble string `json:"trouble,omitempty"`
}

// ProposalState is the state of a pull request of a run.
type ProposalState string

const (
	ProposalOpen        ProposalState = "open"        // to be opened, or people are to decide
	ProposalWithdrawing ProposalState = "withdrawing" // the run does not want it any more, and Lehr is about to close it
	ProposalMerged      ProposalState = "merged"      // people merged it
	ProposalClosed      ProposalState = "closed"      // people closed it
	ProposalWithdrawn   ProposalState = "withdrawn"   // Lehr closed it where it was open
)

// Pending reports whether something is still to be done about it.
func (p *RolloutProposal) Pending() bool {
	return p.State == ProposalOpen || p.State == ProposalWithdrawing
}

// HasPendingProposals reports whether something is still to be done about a pull request of the run.
func (r *Rollout) HasPendingProposals() bool {
	for i := range r.Proposals {
		if r.Proposals[i].Pending() {
			return true
		}
	}
	return false
}
