import type { Clock } from '@tollway/chassis/clock.ts'
import type { Slices } from '@tollway/chassis/slices.ts'
import { type StatusCondition, withTransitionTimes } from '../status/conditions.ts'
import { deriveConditions, type ResourceStatus, type StatusFacts } from '../status/resource-status.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { EncodedResource } from './choose-contents.ts'
import type { Advisory, KindAdapter, Named } from './kind-adapter.ts'
import type { SourcedResource } from './source.ts'

/** How the clients of the feed responded to one resource. */
export interface ResourceEnforcement {
  readonly acknowledged: ReadonlySet<string>
  readonly rejections: readonly { readonly pod: string; readonly message: string }[]
  /** Clients to which the feed does not send the resource, with the features that they lack. */
  readonly lacking: readonly { readonly uid: string; readonly features: readonly string[] }[]
}

/** Facts about a run that are the same for all resources of the kind. */
export interface SharedFacts {
  /** The uids of all running processes of the kind. */
  readonly uids: readonly string[]
  /** The uids of the processes that accept calls. */
  readonly accepting: readonly string[]
  readonly switchedOff: string | undefined
  /** Why the feed cannot carry the contents of this run; undefined if it does. */
  readonly unpublished: string | undefined
  readonly enforcement: (resource: Resource) => ResourceEnforcement
  readonly backendFailure: string | undefined
  readonly obstacle: string | undefined
  /** The advisories by the names of the resources; see `KindAdapter.findAdvisories`. */
  readonly advisories: ReadonlyMap<string, Advisory>
}

interface StatusOptions {
  readonly clock: Clock
  readonly storedConditions: ((resource: SourcedResource) => readonly StatusCondition[]) | undefined
}

interface Derived {
  readonly resource: SourcedResource
  readonly facts: StatusFacts
  readonly counts: Readonly<Record<string, number>>
  readonly stored: readonly StatusCondition[] | undefined
  readonly status: ResourceStatus
}

/**
 * Derives the statuses of one kind. A status is derived anew only if a fact about its resource has changed.
 */
export function createStatuses<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'readSubject' | 'count' | 'findSharing'>,
  { clock, storedConditions }: StatusOptions,
) {
  let known: ReadonlyMap<string, Derived> = new Map()

  function deriveOne(item: EncodedResource<Content>, shared: SharedFacts): Derived {
    const { resource, content, translation } = item
    const before = known.get(resource.uid)
    const facts = gatherFacts(item, shared)
    const counts = kind.count(content, shared.uids)
    const sharing = content && kind.findSharing?.(content)
    const stored = storedConditions?.(resource)
    const isSame =
      before !== undefined &&
      isSameResource(before.resource, resource) &&
      before.stored === stored &&
      before.status.sharing === sharing &&
      isSameCounts(before.counts, counts) &&
      isSameFacts(before.facts, facts)
    if (isSame) return before
    const present = 'value' in translation ? translation.value : undefined
    const old = stored ?? before?.status.conditions ?? []
    const status = {
      kind: resource.kind,
      namespace: resource.namespace,
      name: resource.name,
      uid: resource.uid,
      origin: resource.origin,
      observedGeneration: resource.generation,
      subject: kind.readSubject(present ?? content, resource.spec),
      counts,
      enforced: `${facts.enforcing}/${facts.running}`,
      problems: facts.problems,
      ...(sharing && { sharing }),
      conditions: withTransitionTimes(old, deriveConditions(facts), resource.generation, clock.nowMs()),
    }
    return { resource, facts, counts, stored, status }
  }

  return {
    async derive(
      all: readonly EncodedResource<Content>[],
      shared: SharedFacts,
      slices: Slices,
    ): Promise<readonly ResourceStatus[]> {
      const derived = new Map<string, Derived>()
      for (const item of all) {
        derived.set(item.resource.uid, deriveOne(item, shared))
        await slices.yieldIfDue()
      }
      known = derived
      return Array.from(derived.values(), ({ status }) => status)
    },
  }
}

const byNone: ResourceEnforcement = { acknowledged: new Set<string>(), rejections: [], lacking: [] }
const none: readonly never[] = []

function gatherFacts<Content>(item: EncodedResource<Content>, shared: SharedFacts): StatusFacts {
  const { name, memory, translation, denial, content, encoded, unmet, resource } = item
  const { accepting, switchedOff, unpublished, backendFailure, obstacle, enforcement, advisories } = shared
  const present = 'value' in translation ? translation.value : undefined
  const { acknowledged, rejections, lacking } =
    encoded === undefined || unpublished !== undefined ? byNone : enforcement(encoded)
  let enforcing = 0
  for (const uid of accepting) if (acknowledged.has(uid)) enforcing += 1
  const withoutFeatures = lacking.filter(({ uid }) => accepting.includes(uid))
  return {
    problems: 'problems' in translation ? translation.problems : none,
    denial: present ? denial : undefined,
    paused: resource.paused,
    inForce: content === undefined ? 'nothing' : content === present ? 'present' : 'last-good',
    lastGoodGeneration: memory.lastGoodGeneration,
    unpublished,
    unmet: unmet,
    switchedOff,
    advisory: advisories.get(name),
    backendFailure,
    obstacle,
    running: accepting.length,
    enforcing,
    lackingFeatures: withoutFeatures.length,
    missingFeatures: [...new Set(withoutFeatures.flatMap(({ features }) => features))].join(', '),
    rejections: content === present ? rejections : none,
  }
}

/**
 * Returns whether both are the same state of a resource. Each run makes a new object for a paused resource,
 * so the objects cannot be compared.
 */
function isSameResource(a: SourcedResource, b: SourcedResource): boolean {
  return a === b || (a.generation === b.generation && a.spec === b.spec && a.origin === b.origin)
}

function isSameCounts(a: Derived['counts'], b: Derived['counts']): boolean {
  for (const field in a) if (a[field] !== b[field]) return false
  return true
}

function isSameFacts(a: StatusFacts, b: StatusFacts): boolean {
  return (
    a.problems === b.problems &&
    a.paused === b.paused &&
    a.inForce === b.inForce &&
    (a.inForce !== 'last-good' || a.lastGoodGeneration === b.lastGoodGeneration) &&
    a.unpublished === b.unpublished &&
    a.unmet === b.unmet &&
    a.switchedOff === b.switchedOff &&
    a.advisory?.message === b.advisory?.message &&
    a.backendFailure === b.backendFailure &&
    a.obstacle === b.obstacle &&
    a.running === b.running &&
    a.enforcing === b.enforcing &&
    a.lackingFeatures === b.lackingFeatures &&
    a.missingFeatures === b.missingFeatures &&
    isSameDenial(a.denial, b.denial) &&
    isSameList(a.rejections, b.rejections)
  )
}

function isSameDenial(a: StatusFacts['denial'], b: StatusFacts['denial']): boolean {
  return a?.reason === b?.reason && a?.path === b?.path && a?.message === b?.message
}

function isSameList(a: StatusFacts['rejections'], b: StatusFacts['rejections']): boolean {
  return (
    a.length === b.length &&
    a.every(({ pod, message }, index) => pod === b[index]?.pod && message === b[index].message)
  )
}
