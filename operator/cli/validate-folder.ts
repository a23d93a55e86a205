import { systemClock } from '@tollway/chassis/clock.ts'
import { createSlices } from '@tollway/chassis/slices.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { type ChosenResource, chooseContents, translateResource } from '../kinds/choose-contents.ts'
import type { Advisory, KindAdapter, Named, UnmetDependency } from '../kinds/kind-adapter.ts'
import { formatProblem, type ResourceProblem } from '../kinds/kind-adapter.ts'
import { translateMerchant } from '../kinds/merchant/translate-merchant.ts'
import { gather } from '../kinds/published-resources.ts'
import { isOurs, knownKinds } from '../kinds/registry.ts'
import type { SourcedResource } from '../kinds/source.ts'
import { qualifiedName } from '../kinds/source.ts'
import { createSnapshot, type Snapshot } from '../xds/snapshot.ts'
import type { FolderContent } from './read-folder.ts'

/** An error or a probable mistake in a folder of manifests. */
export interface Diagnostic {
  readonly severity: 'error' | 'warning'
  /** The file, and the number of the document in it, such as `checkout.yaml#2`. */
  readonly origin: string
  /**
   * The resource, such as `RateLimitConfig shop/checkout`; empty if the diagnostic belongs to no resource.
   */
  readonly resource: string
  /** The field, such as `spec.descriptors[0].rateLimit.unit`; empty for the whole resource. */
  readonly path: string
  readonly message: string
}

interface ValidatedFolder {
  readonly diagnostics: readonly Diagnostic[]
  /** The domains that the operator would enforce, sorted by name. */
  readonly domains: readonly RateLimitDomain[]
  /** The content of the feed, one snapshot for each type. */
  readonly published: readonly PublishedSnapshot[]
}

export interface PublishedSnapshot {
  readonly snapshot: Snapshot
  /** Returns an encoded message of the snapshot in a readable form, as a JSON value. */
  readonly show: (bytes: Uint8Array) => unknown
}

/** Validates the content of a folder as an operator does that has the same remembered state. */
export async function validateFolder(content: FolderContent): Promise<ValidatedFolder> {
  const { folder, resources, problems, kinds } = content
  const limits = await validateKind(kinds.limits, content)
  const routes = await validateKind(kinds.routes, content)
  const diagnostics: Diagnostic[] = [
    ...problems.map(problem => ({ severity: 'error', resource: '', path: '', ...problem }) as const),
    ...limits.diagnostics,
    ...routes.diagnostics,
    ...resources.flatMap(diagnoseMerchant),
  ]
  if (!resources.some(isOurs) && problems.length === 0) {
    const message = `no resource found: expected ${knownKinds} in a .yaml or .yml file`
    diagnostics.push({ severity: 'error', origin: folder, resource: '', path: '', message })
  }
  return { diagnostics, domains: limits.contents, published: [limits, routes] }
}

async function validateKind<Content extends Named, Published>(
  kind: KindAdapter<Content, Published>,
  { resources, unread, memoriesOf }: FolderContent,
) {
  const sighting = { resources, unread, memories: memoriesOf(kind), nowMs: systemClock.nowMs() }
  const slices = createSlices()
  const { gathered } = await gather(kind, sighting, resource => translateResource(kind, resource), slices)
  const chosen = await chooseContents(gathered, kind.openClaims(), slices)
  const completed = chosen.map(item => {
    const { published, unmet } = item.content
      ? kind.complete(item.content, item.memory.firstSeenMs)
      : noContent
    return { ...item, published, unmet }
  })
  const doubts = kind.findAdvisories?.(completed.flatMap(({ content }) => content ?? []))
  const owners = new Map(completed.map(({ resource }) => [qualifiedName(resource), resource.origin]))
  const encoded = completed.flatMap(({ published }) =>
    published === undefined ? [] : [kind.encode(published)],
  )
  return {
    diagnostics: completed.flatMap(item => [
      ...diagnoseChosen(item, owners, item.unmet),
      ...diagnoseDoubt(item, doubts?.get(item.name)),
    ]),
    contents: completed.flatMap(({ content }) => content ?? []),
    snapshot: createSnapshot(kind.typeUrl, encoded),
    show: kind.show,
  }
}

/** Validates a Merchant separately from the other kinds, because it is not in the feed and claims nothing. */
function diagnoseMerchant(resource: SourcedResource): readonly Diagnostic[] {
  if (resource.kind !== merchantKind.kind || !isOurs(resource)) return []
  const translation = translateResource({ translate: translateMerchant }, resource)
  const place = { origin: resource.origin, resource: `${resource.kind} ${qualifiedName(resource)}` }
  return 'problems' in translation
    ? translation.problems.map(one => ({ severity: 'error', ...place, ...one }))
    : translation.warnings.map(one => ({ severity: 'warning', ...place, ...one }))
}

function diagnoseDoubt(
  { resource }: ChosenResource<Named>,
  doubt: Advisory | undefined,
): readonly Diagnostic[] {
  if (doubt === undefined) return []
  const place = { origin: resource.origin, resource: `${resource.kind} ${qualifiedName(resource)}` }
  return [{ severity: 'warning', ...place, path: '', message: doubt.message }]
}

const noContent = { published: undefined, unmet: undefined }

function diagnoseChosen(
  { resource, translation, denial, memory, content }: ChosenResource<Named>,
  owners: ReadonlyMap<string, string>,
  unmet: UnmetDependency | undefined,
): readonly Diagnostic[] {
  const place = { origin: resource.origin, resource: `${resource.kind} ${qualifiedName(resource)}` }
  const toDiagnostic = (severity: Diagnostic['severity']) => (one: ResourceProblem) => ({
    severity,
    ...place,
    ...one,
  })
  const diagnostics: Diagnostic[] =
    'problems' in translation
      ? translation.problems.map(toDiagnostic('error'))
      : translation.warnings.map(toDiagnostic('warning'))
  if (content !== undefined && content === memory.lastGood) {
    diagnostics.push({
      severity: 'warning',
      ...place,
      path: '',
      message: 'the last good version is in force',
    })
  }
  if (unmet !== undefined) {
    diagnostics.push({ severity: 'warning', ...place, path: '', message: unmet.message })
  }
  if ('problems' in translation || denial === undefined) return diagnostics
  const { path, owner } = denial
  const where = owner === undefined ? '' : `; ${owner} is declared in ${owners.get(owner)}`
  diagnostics.push({ severity: 'error', ...place, path, message: denial.message + where })
  return diagnostics
}

/** Formats a diagnostic in one line. */
export function formatDiagnostic({ severity, origin, resource, ...problem }: Diagnostic): string {
  const places = [severity === 'warning' ? 'warning' : '', origin, resource].filter(place => place !== '')
  return `${escapeControls([...places, formatProblem(problem)].join(': '))}\n`
}
