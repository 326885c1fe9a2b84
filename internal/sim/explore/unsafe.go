package explore

// Unsafe is a set of defences that are taken out of a world, to see that it
// would be noticed.
type Unsafe uint64

const (
	// NoEpochAtAdmission: the journal admits under a lease that was lost.
	NoEpochAtAdmission Unsafe = 1 << iota
	// NoStopAtAdmission: the journal does not look at the stop.
	NoStopAtAdmission
	// NoRevision: the journal does not ask whether anything has moved.
	NoRevision
	// NoValidUntil: the journal does not ask whether a pin has ended.
	NoValidUntil
	// NoExclusion: the journal admits beside an open push of the asset.
	NoExclusion
	// NoMemory: a replica does not know which pushes are open.
	NoMemory
	// NoQuiet: the journal admits while a neighbour that was relied on is
	// being pushed. NoOutrun: what waited for its group is sent all the same,
	// after a push began of what it rests on. SmallGroups: what waits may find
	// no place in the next group, and such a push may be over before it is sent.
	NoQuiet
	NoOutrun
	SmallGroups
	// NoBudget: the journal counts nothing. BudgetEndsInDoubt: what is in
	// doubt does not count.
	NoBudget
	BudgetEndsInDoubt
	// ApprovalStays: using an approval does not use it up.
	ApprovalStays
	// ApprovalUnbound: any approval of the asset will do.
	ApprovalUnbound
	// ApprovalOutlives: a change of the content does not void it.
	ApprovalOutlives
	// NoEpochAtPermit, NoDoubtAtPermit, NoStopAtPermit, NoTargetAtPermit: a
	// permit is renewed without asking for it.
	NoEpochAtPermit
	NoDoubtAtPermit
	NoStopAtPermit
	NoTargetAtPermit
	// NoLockDelay: what is in doubt is settled at once. NoEffectDelay: the
	// lock delay does not count the longest effect.
	NoLockDelay
	NoEffectDelay
	// NoFence: a target of class F takes any token.
	NoFence
	// NoCompare: a target of class C takes any base. BaseReused: a content
	// that returns brings its base back.
	NoCompare
	BaseReused
	// NoPlanAgain: the plugin carries out whatever leads to the content.
	NoPlanAgain
	// NoCover: a moved base needs no new permit.
	NoCover
	// RunsTwice: the plugin takes a push that it is carrying out already.
	// DeliversLate: the wire delivers a message again after its answer.
	RunsTwice
	DeliversLate
	// BegunLate: a replica that was held up after it looked at the age of an
	// admission sends it all the same, under a request that came meanwhile.
	BegunLate
	// AbsenceDeletes: what is not in intent is taken for turned down.
	AbsenceDeletes
	// AbsencePlansDelete: the plugin would remove what is not in intent.
	AbsencePlansDelete
	// NoRules: a pass pushes without asking the rules.
	NoRules
	// NeverSettles: what is in doubt stays so. NeverReads: a replica reads the
	// store once. NeverAsksAgain: no second approval is asked for of a plan.
	NeverSettles
	NeverReads
	NeverAsksAgain
	// HeadGoesBack: somebody puts an older store in the place of the newer.
	HeadGoesBack
)
