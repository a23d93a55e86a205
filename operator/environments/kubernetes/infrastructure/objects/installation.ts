import type { Workload } from '../../../../model.ts'
import { objectName } from '../../../../workloads/cluster-names.ts'
import type { KubeObject } from '../../api/kube-object.ts'

/** The namespace of the objects of an installation, and their owner. */
export interface Installation {
  /** The name of the installation, with which the names of all its objects begin: `tollway`. */
  readonly name: string
  readonly namespace: string
  /**
   * The chart's ConfigMap of the operator. The garbage collector deletes everything that the operator created
   * when an uninstall deletes it.
   */
  readonly owner: InstallationOwner
  /** Identifies the release of the chart whose operator applies the objects; empty when none is known. */
  readonly revision: string
}

export interface InstallationOwner {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
}

/** The parts from which an object of any kind is made. */
export interface WorkloadContext {
  readonly workload: Workload
  readonly installation: Installation
}

export const labelNames = {
  name: 'app.kubernetes.io/name',
  instance: 'app.kubernetes.io/instance',
  component: 'app.kubernetes.io/component',
  managedBy: 'app.kubernetes.io/managed-by',
  partOf: 'app.kubernetes.io/part-of',
} as const

const product = 'tollway'

/** The selector of pods. It is immutable in a Deployment, so it has only the labels that distinguish pods. */
export function podSelector(
  installation: Pick<Installation, 'name'>,
  workload: string,
): Readonly<Record<string, string>> {
  return { [labelNames.name]: workload, [labelNames.instance]: installation.name }
}

/** The selector of the pods of the operator itself, which the chart creates. */
export function operatorSelector(installation: Pick<Installation, 'name'>): Readonly<Record<string, string>> {
  return { [labelNames.name]: `${product}-operator`, [labelNames.instance]: installation.name }
}

export function objectLabels(
  installation: Pick<Installation, 'name'>,
  workload: string,
): Readonly<Record<string, string>> {
  return {
    ...podSelector(installation, workload),
    [labelNames.component]: workload,
    [labelNames.managedBy]: product,
    [labelNames.partOf]: product,
  }
}

/** Selects all objects that the operator created for workloads, and none of the chart. */
export function ownObjectsSelector({ name }: Pick<Installation, 'name'>): string {
  return `${labelNames.managedBy}=${product},${labelNames.instance}=${name}`
}

/** Returns an object with the name, the labels and the owner that all objects of a workload have. */
export function ownedObject(
  { workload, installation }: WorkloadContext,
  object: { readonly apiVersion: string; readonly kind: string; readonly [field: string]: unknown },
  suffix?: string,
): KubeObject {
  const { apiVersion, kind, ...rest } = object
  const { owner, namespace } = installation
  return {
    apiVersion,
    kind,
    metadata: {
      name: objectName(installation.name, workload.name, suffix),
      namespace,
      labels: objectLabels(installation, workload.name),
      ownerReferences: [{ apiVersion: owner.apiVersion, kind: owner.kind, name: owner.name, uid: owner.uid }],
    },
    ...rest,
  }
}
