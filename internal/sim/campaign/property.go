package campaign

// properties in a few words, by their numbers in the design.
var properties = map[string]string{
	"S1":  "no effect without a durable admission that every check passed",
	"S2":  "nothing is pushed but the target, as read again at admission",
	"S3":  "at most one push of an asset, and of a resource, at a time",
	"S4":  "whoever lost the lease changes nothing",
	"S5":  "absence never deletes, and empty never means all",
	"S6":  "what was rejected, partial or not read is never served",
	"S7":  "incarnations never change, and every read of them is verified",
	"S8":  "budgets hold for effects",
	"S9":  "a destructive push needs its approval: for that plan, once, or a reviewed rule that names it",
	"S10": "an asset is of one rollout at a time",
	"S11": "missing or broken data never becomes a pass",
	"S12": "nothing a tenant writes harms another, or the server",
	"S13": "no secret shows in what is told, stored beside contents, or logged",
	"S16": "pins move forward in revision",
	"S17": "the collector removes nothing that is needed",
	"S18": "stop stops",
	"S19": "what is not known to be good goes no further than its stage lets it",
	"S20": "good is earned, and what was bad is not gone back to",
	"S21": "looking changes nothing",
	"S22": "identities are never used again",
	"S23": "guards count over time, and no commit disarms its own",
	"S25": "the audit's record precedes the effect",
	"S26": "replies are claims, and not believed",
	"S27": "what a plugin had kept of an asset is handed to it again, and nobody else's",
	"S28": "a run of a workflow acts once, by what holds then, and takes back what it leaves",
	"L1":  "once nothing is wrong any more, production becomes as intent says",
	"L2":  "an asset at which its plugin fails delays no other",
	"L3":  "new content does not wait for what failed before it",
	"L4":  "every asset that waits has a root cause, stored",
	"L5":  "when a process is gone, another one acts",
	"L6":  "no admission stays open",
	"L7":  "no sequence of faults needs a repair by hand",
	"L8":  "what is found bad goes back at once",
	"L9":  "a rollout ends, or says for what it waits",
	"L10": "where nothing is left to do, nothing happens, and nothing is done again and again",

	"monitor":   "the monitor can read what it watches",
	"simulator": "the simulator itself works",
	"script":    "what the script says comes about",
}

// Says tells what a property is, in words.
func Says(property string) string {
	if text, ok := properties[property]; ok {
		return text
	}
	return "see the design"
}
