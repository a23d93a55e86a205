import { systemClock } from '@tollway/chassis/clock.ts'
import { isOurs } from '../../kinds/registry.ts'
import type { SourcedResource } from '../../sources/source.ts'
import type { FolderContent } from '../read-folder.ts'
import { type Finding, validateFolder } from '../validate-folder.ts'
import { type FieldDifference, fieldDifferences } from './field-differences.ts'
import { type RuleDifference, ruleDifferences } from './rule-differences.ts'

/** The effect of a change of resources. */
export interface Differences {
  readonly resources: readonly ResourceDifference[]
  readonly rules: readonly RuleDifference[]
  /** Errors and warnings that the change would cause, such as a domain of another resource. */
  readonly problems: readonly Finding[]
}

export interface ResourceDifference {
  readonly change: 'create' | 'change' | 'delete'
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly fields: readonly FieldDifference[]
}

/** The resources that a change is compared with. */
export interface DiffTarget {
  /** The current resources. */
  readonly content: FolderContent
  /** Resolves with the spec as it would be stored, with defaults. Rejects if it would be refused. */
  completeSpec(wanted: SourcedResource, current: SourcedResource | undefined): Promise<unknown>
  /** Resolves with the content with these resources instead. */
  withResources(resources: readonly SourcedResource[]): Promise<FolderContent>
}

const keyOf = ({ kind, namespace, name }: SourcedResource) => `${kind} ${namespace}/${name}`

/** @param prune whether resources count as deleted that are not in the folder, in its namespaces */
export async function compareResources(
  target: DiffTarget,
  folder: Pick<FolderContent, 'resources' | 'problems'>,
  prune: boolean,
): Promise<Differences> {
  const current = new Map(target.content.resources.map(resource => [keyOf(resource), resource]))
  const wanted = new Map<string, SourcedResource>()
  const youngestMs = systemClock.nowMs() + maxComparisonMs
  for (const resource of folder.resources) {
    const before = current.get(keyOf(resource))
    const spec = isOurs(resource) ? await target.completeSpec(resource, before) : resource.spec
    // The oldest resource has a domain, and a new one is younger than all others.
    const age = before === undefined ? { createdMs: youngestMs } : ageOf(before)
    wanted.set(keyOf(resource), { ...resource, ...age, spec })
  }
  const namespaces = new Set(folder.resources.filter(isOurs).map(({ namespace }) => namespace))
  const isPruned = (resource: SourcedResource) =>
    prune && isOurs(resource) && namespaces.has(resource.namespace) && !wanted.has(keyOf(resource))
  const kept = [...current.values()].filter(resource => !isPruned(resource) && !wanted.has(keyOf(resource)))
  const after = await target.withResources([...kept, ...wanted.values()])
  const [judgedBefore, judgedAfter] = [await validateFolder(target.content), await validateFolder(after)]
  const known = new Set(judgedBefore.findings.map(textOf))
  return {
    resources: [
      ...[...wanted.values()].filter(isOurs).flatMap(one => differenceOf(current.get(keyOf(one)), one)),
      ...[...current.values()]
        .filter(isPruned)
        .map(one => ({ change: 'delete', ...nameOf(one), fields: [] }) as const),
    ],
    rules: ruleDifferences(judgedBefore.domains, judgedAfter.domains),
    problems: [
      ...folder.problems.map(one => ({ severity: 'error', resource: '', path: '', ...one }) as const),
      ...judgedAfter.findings.filter(finding => !known.has(textOf(finding))),
    ],
  }
}

/** An existing resource of unknown age counts as one of the time at which it is judged. */
const maxComparisonMs = 3_600_000

const ageOf = ({ uid, createdMs }: SourcedResource) => ({
  uid,
  ...(createdMs !== undefined && { createdMs }),
})

const textOf = ({ resource, path, message }: Finding) => `${resource} ${path} ${message}`
const nameOf = ({ kind, namespace, name }: SourcedResource) => ({ kind, namespace, name })

function differenceOf(
  before: SourcedResource | undefined,
  after: SourcedResource,
): readonly ResourceDifference[] {
  const fields = before === undefined ? [] : differencesOfFields(before, after)
  if (before === undefined) return [{ change: 'create', ...nameOf(after), fields }]
  return fields.length === 0 ? [] : [{ change: 'change', ...nameOf(after), fields }]
}

const annotationsOf = ({ paused, rotation }: SourcedResource) => ({
  ...(paused && { 'tollway.dev/paused': 'true' }),
  ...(rotation !== undefined && { 'tollway.dev/rotate-key': rotation }),
})

function differencesOfFields(before: SourcedResource, after: SourcedResource): readonly FieldDifference[] {
  return [
    ...fieldDifferences(annotationsOf(before), annotationsOf(after), 'metadata.annotations'),
    ...fieldDifferences(before.spec, after.spec, 'spec'),
  ]
}
