package main

import (
	"net/http"
	"strings"

	"lehr.dev/sdk/serve"
)

func jobManifest(namespace, name, annotations string) string {
	return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"annotations":{` + annotations + `},"name":"` + name + `","namespace":"` + namespace + `"},"spec":{"backoffLimit":0,"template":{"spec":{"containers":[{"image":"a:1","name":"main"}],"restartPolicy":"Never"}}}}`
}

// hooking: a Job is pending until it has ended well, so that what comes after it waits, whether it
// was a hook or not; one that failed stays so until somebody deletes it, and it is made anew. One
// that is suspended is as it should be.
func hooking(c *cluster) {
	job := func(name, annotations string) serve.Intent {
		return c.asset(object(c.T, jobManifest("hooking", name, annotations)))
	}
	begin := func(asset serve.Intent) {
		c.Helper()
		d := c.diff(asset)
		if d.Outcome != serve.Differs || c.push(asset, d, permits{}).Ending != serve.Pushed {
			c.Fatalf("it cannot be made: %v %s", d.Outcome, d.Reason)
		}
	}
	const path = "/apis/batch/v1/namespaces/hooking/jobs/"
	suspended := object(c.T, strings.Replace(jobManifest("hooking", "later", ""), `"spec":{"backoffLimit"`, `"spec":{"suspend":true,"backoffLimit"`, 1))
	c.mustPush(c.asset(suspended))
	for name, annotation := range map[string]string{"plain": "", "helm": `"helm.sh/hook":"pre-upgrade"`, "argo": `"argocd.argoproj.io/hook":"PreSync"`} {
		asset := job(name, annotation)
		begin(asset)
		d := c.diff(asset)
		if d.Outcome != serve.Pending || !strings.Contains(d.Reason, "has not ended") || d.PendingEnd == "" || d.PendingSince.IsZero() {
			c.Fatalf("while it runs it is %v %s (%s since %s)", d.Outcome, d.Reason, d.PendingEnd, d.PendingSince)
		}
		c.byHand(path+name+"/status", http.MethodPatch, `{"status":{"startTime":"2026-11-26T10:00:00Z","failed":1,"conditions":[{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded","message":"it failed too often"},{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"it failed too often"}]}}`)
		if d := c.diff(asset); d.Outcome != serve.Pending || !strings.Contains(d.Reason, "failed: BackoffLimitExceeded: it failed too often") {
			c.Fatalf("when it has failed it is %v %s", d.Outcome, d.Reason)
		}
		c.byHand(path+name+"?propagationPolicy=Background", http.MethodDelete, "")
		begin(asset)
		c.byHand(path+name+"/status", http.MethodPatch, `{"status":{"startTime":"2026-11-26T10:00:00Z","completionTime":"2026-11-26T10:01:00Z","succeeded":1,"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`)
		if d := c.diff(asset); d.Outcome != serve.InSync || d.Health.State != serve.Healthy {
			c.Errorf("when it has ended well it is %v %s, %v %s", d.Outcome, d.Reason, d.Health.State, d.Health.Reason)
		}
	}
}
