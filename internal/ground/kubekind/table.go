package kubekind

// builtIn are the kinds that an API server of 1.36 has: Kind.group, the name of its resource,
// where its objects are, and the short names that kubectl takes. A test of lehr-kubernetes
// compares it with what a real server lists.
const builtIn = `
ConfigMap configmaps namespaced cm
Endpoints endpoints namespaced ep
Event events namespaced ev
LimitRange limitranges namespaced limits
Namespace namespaces cluster ns
Node nodes cluster no
PersistentVolume persistentvolumes cluster pv
PersistentVolumeClaim persistentvolumeclaims namespaced pvc
Pod pods namespaced po
PodTemplate podtemplates namespaced
ReplicationController replicationcontrollers namespaced rc
ResourceQuota resourcequotas namespaced quota
Secret secrets namespaced
Service services namespaced svc
ServiceAccount serviceaccounts namespaced sa
MutatingAdmissionPolicy.admissionregistration.k8s.io mutatingadmissionpolicies cluster
MutatingAdmissionPolicyBinding.admissionregistration.k8s.io mutatingadmissionpolicybindings cluster
MutatingWebhookConfiguration.admissionregistration.k8s.io mutatingwebhookconfigurations cluster
ValidatingAdmissionPolicy.admissionregistration.k8s.io validatingadmissionpolicies cluster
ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io validatingadmissionpolicybindings cluster
ValidatingWebhookConfiguration.admissionregistration.k8s.io validatingwebhookconfigurations cluster
CustomResourceDefinition.apiextensions.k8s.io customresourcedefinitions cluster crd,crds
APIService.apiregistration.k8s.io apiservices cluster
ControllerRevision.apps controllerrevisions namespaced
DaemonSet.apps daemonsets namespaced ds
Deployment.apps deployments namespaced deploy
ReplicaSet.apps replicasets namespaced rs
StatefulSet.apps statefulsets namespaced sts
HorizontalPodAutoscaler.autoscaling horizontalpodautoscalers namespaced hpa
CronJob.batch cronjobs namespaced cj
Job.batch jobs namespaced
CertificateSigningRequest.certificates.k8s.io certificatesigningrequests cluster csr
Lease.coordination.k8s.io leases namespaced
EndpointSlice.discovery.k8s.io endpointslices namespaced
Event.events.k8s.io events namespaced ev
FlowSchema.flowcontrol.apiserver.k8s.io flowschemas cluster
PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io prioritylevelconfigurations cluster
IPAddress.networking.k8s.io ipaddresses cluster ip
Ingress.networking.k8s.io ingresses namespaced ing
IngressClass.networking.k8s.io ingressclasses cluster
NetworkPolicy.networking.k8s.io networkpolicies namespaced netpol
ServiceCIDR.networking.k8s.io servicecidrs cluster
RuntimeClass.node.k8s.io runtimeclasses cluster
PodDisruptionBudget.policy poddisruptionbudgets namespaced pdb
ClusterRole.rbac.authorization.k8s.io clusterroles cluster
ClusterRoleBinding.rbac.authorization.k8s.io clusterrolebindings cluster
Role.rbac.authorization.k8s.io roles namespaced
RoleBinding.rbac.authorization.k8s.io rolebindings namespaced
DeviceClass.resource.k8s.io deviceclasses cluster
ResourceClaim.resource.k8s.io resourceclaims namespaced
ResourceClaimTemplate.resource.k8s.io resourceclaimtemplates namespaced
ResourceSlice.resource.k8s.io resourceslices cluster
PriorityClass.scheduling.k8s.io priorityclasses cluster pc
CSIDriver.storage.k8s.io csidrivers cluster
CSINode.storage.k8s.io csinodes cluster
CSIStorageCapacity.storage.k8s.io csistoragecapacities namespaced
StorageClass.storage.k8s.io storageclasses cluster sc
VolumeAttachment.storage.k8s.io volumeattachments cluster
VolumeAttributesClass.storage.k8s.io volumeattributesclasses cluster vac
`
