import { systemClock } from '@tollway/chassis/clock.ts'
import type { RateLimitDomain } from '../ir.ts'
import { type Chosen, chooseContents, nameOf, translateResource } from '../reconcilers/choose-contents.ts'
import { gather } from '../reconcilers/gather.ts'
import { type FieldProblem, formatFieldProblem } from '../translate/field-problem.ts'
import type { FolderContent } from './read-folder.ts'
import { printable } from './render.ts'

/** Something in a folder of manifests that is wrong, or hardly meant. */
export interface Finding {
  readonly severity: 'error' | 'warning'
  /** `checkout.yaml#2`. */
  readonly origin: string
  /** `RateLimitConfig shop/checkout`; empty for what is no resource. */
  readonly resource: string
  /** `spec.descriptors[0].rateLimit.unit`; empty for the whole. */
  readonly path: string
  readonly message: string
}

export interface JudgedFolder {
  readonly findings: readonly Finding[]
  /** What such an operator has in force, in the order of the names. */
  readonly domains: readonly RateLimitDomain[]
}

/** Judges all that a folder holds as an operator does that remembers this of it. */
export function judgeFolder({ folder, resources, problems, unread, memories }: FolderContent): JudgedFolder {
  const sighting = { resources, unread, memories, nowMs: systemClock.nowMs() }
  const chosen = chooseContents(gather(sighting, translateResource))
  const owners = new Map(chosen.map(({ resource }) => [nameOf(resource), resource.origin]))
  const findings: Finding[] = [
    ...problems.map(problem => ({ severity: 'error', resource: '', path: '', ...problem }) as const),
    ...chosen.flatMap(item => findingsOf(item, owners)),
  ]
  if (resources.length === 0 && problems.length === 0) {
    const message = 'holds no RateLimitConfig in any .yaml or .yml file'
    findings.push({ severity: 'error', origin: folder, resource: '', path: '', message })
  }
  const domains = chosen.flatMap(({ content }) => content ?? [])
  return { findings, domains: domains.toSorted((a, b) => (a.name < b.name ? -1 : 1)) }
}

function findingsOf(
  { resource, translation, grant, memory, content }: Chosen,
  owners: ReadonlyMap<string, string>,
): readonly Finding[] {
  const place = { origin: resource.origin, resource: `${resource.kind} ${nameOf(resource)}` }
  const told = (severity: Finding['severity']) => (one: FieldProblem) => ({ severity, ...place, ...one })
  const findings: Finding[] =
    'problems' in translation
      ? translation.problems.map(told('error'))
      : translation.warnings.map(told('warning'))
  if (content !== undefined && content === memory.lastGood) {
    findings.push({ severity: 'warning', ...place, path: '', message: 'the last good version is in force' })
  }
  if ('problems' in translation) return findings
  if (grant.refusal?.kind === 'taken') {
    const { domain } = translation.value
    const owner = `${grant.refusal.owner} in ${owners.get(grant.refusal.owner)}`
    const message = `"${domain}" is also the domain of ${owner}; a domain belongs to one resource`
    findings.push({ severity: 'error', ...place, path: 'spec.domain', message })
  }
  return findings
}

/** A finding in one line. */
export function formatFinding({ severity, origin, resource, ...problem }: Finding): string {
  const places = [severity === 'warning' ? 'warning' : '', origin, resource].filter(place => place !== '')
  return `${printable([...places, formatFieldProblem(problem)].join(': '))}\n`
}
