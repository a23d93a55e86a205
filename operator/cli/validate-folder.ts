import { systemClock } from '@tollway/chassis/clock.ts'
import { createSlices } from '@tollway/chassis/slices.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { type ChosenResource, chooseContents, translateResource } from '../kinds/choose-contents.ts'
import {
  type Advisory,
  formatProblem,
  type KindAdapter,
  type Named,
  type Translation,
  type UnmetDependency,
} from '../kinds/kind-adapter.ts'
import { translateMerchant } from '../kinds/merchant/translate-merchant.ts'
import { gather } from '../kinds/published-resources.ts'
import { isOurs, knownKinds } from '../kinds/registry.ts'
import type { SourcedResource } from '../kinds/source.ts'
import { qualifiedName } from '../kinds/source.ts'
import { createSnapshot, type Snapshot } from '../xds/snapshot.ts'
import type { FolderContent } from './read-folder.ts'

/** A problem of a resource; a probable mistake is a warning. */
export interface Diagnostic {
  readonly severity: 'error' | 'warning'
  /** Such as `checkout.yaml#2`: the file, and the number of the document in it. */
  readonly origin: string
  /** Such as `RateLimitConfig shop/checkout`; empty if the diagnostic belongs to no resource. */
  readonly resource: string
  /** Such as `spec.descriptors[0].rateLimit.unit`; empty for the whole resource. */
  readonly path: string
  readonly message: string
}

interface ValidatedFolder {
  readonly diagnostics: readonly Diagnostic[]
  /** The domains that the operator would enforce. */
  readonly domains: readonly RateLimitDomain[]
  /** The content of the feed, one snapshot for each type. */
  readonly published: readonly PublishedSnapshot[]
}

export interface PublishedSnapshot {
  readonly snapshot: Snapshot
  /** Decodes a message of the snapshot to a JSON value. */
  readonly show: (bytes: Uint8Array) => unknown
}

/** Validates as an operator does that has the same remembered state. */
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
  const advisories = kind.findAdvisories?.(completed.flatMap(({ content }) => content ?? []))
  const owners = new Map(completed.map(({ resource }) => [qualifiedName(resource), resource.origin]))
  const encoded = completed.flatMap(({ published }) =>
    published === undefined ? [] : [kind.encode(published)],
  )
  return {
    diagnostics: completed.flatMap(item => diagnoseChosen(item, owners, advisories?.get(item.name))),
    contents: completed.flatMap(({ content }) => content ?? []),
    snapshot: createSnapshot(kind.typeUrl, encoded),
    show: kind.show,
  }
}

/** Validates a Merchant, which is not in the feed and claims nothing. */
function diagnoseMerchant(resource: SourcedResource): readonly Diagnostic[] {
  if (resource.kind !== merchantKind.kind || !isOurs(resource)) return []
  return diagnoseTranslation(resource, translateResource({ translate: translateMerchant }, resource))
}

const describePlace = (resource: SourcedResource) => ({
  origin: resource.origin,
  resource: `${resource.kind} ${qualifiedName(resource)}`,
})

function diagnoseTranslation(
  resource: SourcedResource,
  translation: Translation<unknown>,
): readonly Diagnostic[] {
  const [severity, found] =
    'problems' in translation
      ? (['error', translation.problems] as const)
      : (['warning', translation.warnings] as const)
  return found.map(problem => ({ severity, ...describePlace(resource), ...problem }))
}

const noContent = { published: undefined, unmet: undefined }

type Completed = ChosenResource<Named> & { readonly unmet: UnmetDependency | undefined }

function diagnoseChosen(
  { resource, translation, denial, memory, content, unmet }: Completed,
  owners: ReadonlyMap<string, string>,
  advisory: Advisory | undefined,
): readonly Diagnostic[] {
  const diagnose = (severity: Diagnostic['severity'], message: string, path = ''): Diagnostic[] => [
    { severity, ...describePlace(resource), path, message },
  ]
  const owner =
    denial?.owner === undefined ? '' : `; ${denial.owner} is declared in ${owners.get(denial.owner)}`
  const isKept = content !== undefined && content === memory.lastGood
  return [
    ...diagnoseTranslation(resource, translation),
    ...(isKept ? diagnose('warning', 'the last good version is in force') : []),
    ...(unmet === undefined ? [] : diagnose('warning', unmet.message)),
    ...(denial === undefined || 'problems' in translation
      ? []
      : diagnose('error', denial.message + owner, denial.path)),
    ...(advisory === undefined ? [] : diagnose('warning', advisory.message)),
  ]
}

export function formatDiagnostic({ severity, origin, resource, ...problem }: Diagnostic): string {
  const places = [severity === 'warning' ? 'warning' : '', origin, resource].filter(place => place !== '')
  return `${escapeControls([...places, formatProblem(problem)].join(': '))}\n`
}
