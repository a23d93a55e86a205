import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { listedRules } from '../../kinds/rate-limit-config/list-rules.ts'
import { QueryError } from '../../pods/query-error.ts'
import { paginate, readAll, withoutPods } from '../../ratelimit-queries/pages.ts'
import type {
  DomainTotals,
  HitCounts,
  Paged,
  PageRequest,
  RuleTotals,
} from '../../ratelimit-queries/pod-sessions.ts'
import { errorOfField } from '../errors.ts'
import type { DomainList, HistoryAnswer, RuleList } from '../shapes.ts'
import { findDomain, parseResourceName, resolveDomainScope } from '../sources.ts'
import { type ApiCall, type Handler, optionalText, readPage, requiredText } from './handler.ts'

const noHits = { calls: 0, allowed: 0, refused: 0, near: 0, shadow: 0 }
const noPods = { pods: 0, ...noHits, perSecond: noHits }

/**
 * Lists the domains of resources and of pods. A new domain is at first known only from its resource, a
 * removed one only to pods.
 */
export const domains: Handler = {
  resolveScope: call => ({ namespace: optionalText(call, 'namespace') }),
  async answer(call): Promise<DomainList> {
    const { sources } = call
    const namespace = optionalText(call, 'namespace')
    const contents = new Map(sources.domains().map(content => [content.domain, content]))
    const totals = new Map(
      (await readAll(page => sources.pods.domains(page))).map(item => [item.domain, item]),
    )
    const names = [...new Set([...contents.keys(), ...totals.keys()])]
    const listed = names.map(name => ({ name, owner: parseOwner(contents.get(name)?.name) }))
    const chosen = listed.filter(({ owner }) => namespace === undefined || owner?.namespace === namespace)
    const page = paginate(chosen, ({ name }) => name, readPage(call))
    return {
      ...page,
      items: page.items.map(({ name, owner }) => ({
        domain: name,
        owner,
        ...describeTotals(totals.get(name), contents.get(name)),
      })),
    }
  },
}

const parseOwner = (name: string | undefined) => (name === undefined ? null : parseResourceName(name))

/**
 * Returns the totals of a domain. The number of rules is taken from the resource, if there is one, since pods
 * may still enforce an earlier version of it.
 */
function describeTotals(totals: DomainTotals | undefined, content: RateLimitDomain | undefined) {
  const { pods, rules, ...counted } = totals ?? { ...noPods, rules: 0 }
  return { rules: content ? listedRules(content).length : rules, pods, ...describeHits(counted) }
}

interface Counted extends HitCounts {
  readonly perSecond: HitCounts
}

function describeHits({ calls, allowed, refused, near, shadow, perSecond }: Counted) {
  return {
    calls,
    allowed,
    refused,
    near,
    shadow,
    callsPerSecond: perSecond.calls,
    hitsPerSecond: perSecond.allowed + perSecond.refused + perSecond.shadow,
    rejectedPerSecond: perSecond.refused,
  }
}

export const rules: Handler = {
  resolveScope: call => resolveDomainScope(call.sources, requiredText(call, 'domain')),
  async answer(call): Promise<RuleList> {
    const { sources } = call
    const domain = requiredText(call, 'domain')
    const sumsOnly = requiredText(call, 'totals') === 'sum'
    const content = findDomain(sources, domain)
    const owner = content && parseResourceName(content.name)
    const page = readPage(call)
    const reported = await toleratingUnknownDomain(
      sources.pods.rules(domain, { ...page, sumsOnly }),
      owner !== undefined,
    )
    const described = new Map(content && listedRules(content).map(rule => [rule.rule, rule]))
    const { items, next } = withoutHits(reported, content, page)
    const resource = sources
      .report()
      .resources.find(
        ({ kind, namespace, name }) =>
          kind === 'RateLimitConfig' && namespace === owner?.namespace && name === owner.name,
      )
    return {
      items: items.map(({ rule, pods, ...counted }) => ({
        rule,
        path: [...(described.get(rule)?.path ?? [rule])],
        limit: described.get(rule)?.limit ?? null,
        ...describeHits(counted),
        nearPerSecond: counted.perSecond.near,
        shadowPerSecond: counted.perSecond.shadow,
        // An operator of an earlier version that has the Lease ignores `sumsOnly`, and sends the totals of
        // pods.
        pods: sumsOnly ? {} : { ...pods },
      })),
      ...(next !== undefined && { next }),
      domain,
      conditions: [...(resource?.conditions ?? [])],
    }
  },
}

/**
 * Rejects with 404 if the call names a rule that neither the resource of its domain nor a pod has. A pod can
 * still have a rule of an earlier version of the resource.
 */
export async function checkRule(call: ApiCall): Promise<void> {
  const { sources } = call
  const domain = optionalText(call, 'domain')
  const rule = optionalText(call, 'rule')
  if (rule === undefined || domain === undefined) return
  const content = findDomain(sources, domain)
  // Without a resource no check is needed here: pods reject a domain that they do not know.
  if (content === undefined || listedRules(content).some(each => each.rule === rule)) return
  const reported = await readAll(page =>
    toleratingUnknownDomain(sources.pods.rules(domain, { ...page, sumsOnly: true }), true),
  )
  if (reported.some(each => each.rule === rule)) return
  const shown = JSON.stringify(rule.slice(0, 100))
  const message = `rule: the domain ${domain} has no rule ${shown}; its rules are at /domains/{domain}/rules`
  throw errorOfField('unknown-rule', 'rule', message)
}

/** Adds the rules without hits, which no pod reports, to a page of rules that pods report. */
function withoutHits(
  { items, next: nextReported }: Paged<RuleTotals>,
  content: RateLimitDomain | undefined,
  page: PageRequest,
): Paged<RuleTotals> {
  const names = content === undefined ? [] : listedRules(content).map(({ rule }) => rule)
  const reported = new Set(items.map(({ rule }) => rule))
  const missing = names
    .filter(rule => !reported.has(rule) && (nextReported === undefined || rule < nextReported))
    .map(rule => ({ rule, ...noHits, perSecond: noHits, pods: {} }))
  const { items: shown, next = nextReported } = paginate([...items, ...missing], ({ rule }) => rule, page)
  return { items: shown, ...(next !== undefined && { next }) }
}

/**
 * Resolves with no items for a domain of a resource that pods do not know yet: pods learn of a new domain
 * after the resource is accepted.
 */
async function toleratingUnknownDomain<Item>(
  asked: Promise<Paged<Item>>,
  isOwned: boolean,
): Promise<Paged<Item>> {
  try {
    return await withoutPods(asked)
  } catch (error) {
    if (!(error instanceof QueryError) || error.code !== 'unknown-domain') throw error
    if (isOwned) return { items: [] }
    throw errorOfField('unknown-domain', 'domain', error.message)
  }
}

/**
 * Answers with the history of a domain or, without one, with the sum of all domains of the namespace or of
 * all namespaces.
 */
export const historyHandler: Handler = {
  resolveScope(call) {
    const domain = optionalText(call, 'domain')
    const namespace = optionalText(call, 'namespace')
    return domain === undefined ? { namespace } : resolveDomainScope(call.sources, domain)
  },
  async answer(call): Promise<HistoryAnswer> {
    await checkRule(call)
    const { sources } = call
    const domain = optionalText(call, 'domain')
    const namespace = optionalText(call, 'namespace')
    const owned = sources
      .domains()
      .filter(({ name }) => [undefined, parseResourceName(name).namespace].includes(namespace))
    const domains = domain === undefined ? owned.map(content => content.domain) : [domain]
    return { points: [...(await sources.pods.history({ domains, rule: optionalText(call, 'rule') }))] }
  },
}
