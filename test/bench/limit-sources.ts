import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** A domain with `rules` rules of one value each, and one for `probe`, which shows the active version. */
export interface LimitDomain {
  readonly name: string
  readonly rules: number
  /** The limit of every rule. */
  readonly limit: number
  /** The limit of `probe`. */
  readonly version: number
}

/** Provides a rate limit service with its domains: as files, or as a management server. */
export interface LimitSource {
  /** The settings of the service. */
  readonly settings: Readonly<Record<string, string>>
  /** Prepares the content of all domains; the returned function passes it to the service. */
  prepare(domains: readonly LimitDomain[]): () => void
}

const accountOf = (index: number) => `/accounts/u${index}`

export function questionsOf(domains: readonly LimitDomain[], count: number) {
  return Array.from({ length: count }, (_, place) => {
    const { name = '', rules = 1 } = domains[place % domains.length] ?? {}
    const value = accountOf((place * 7919) % rules)
    return { domain: name, descriptors: [{ entries: [{ key: 'account', value }] }] }
  })
}

/** One file for each domain; the new content replaces a file atomically. */
export function createFileSource(): LimitSource {
  const root = temporaryFolder('bench-limits')
  const folder = join(root, 'config')
  mkdirSync(folder)
  const written = new Map<string, string>()
  return {
    settings: { RUNTIME_ROOT: root, RUNTIME_SUBDIRECTORY: '', RUNTIME_WATCH_ROOT: 'false' },
    prepare(domains) {
      const files = domains.map(domain => ({
        path: join(folder, `${domain.name}.yaml`),
        text: yamlOf(domain),
      }))
      return () => {
        for (const { path, text } of files) {
          if (written.get(path) === text) continue
          written.set(path, text)
          writeFileSync(join(root, 'new'), text)
          renameSync(join(root, 'new'), path)
        }
      }
    },
  }
}

function yamlOf({ name, rules, limit, version }: LimitDomain): string {
  const lines = [`domain: ${name}`, 'descriptors:']
  const rule = (which: string, count: number) =>
    lines.push(`- {${which}, rate_limit: {unit: day, requests_per_unit: ${count}}}`)
  rule('key: probe', version)
  for (let index = 0; index < rules; index++) rule(`key: account, value: ${accountOf(index)}`, limit)
  return lines.join('\n')
}

/** A management server that sends each content once to each stream. */
export async function createFeedSource(): Promise<LimitSource> {
  const { settings, send } = await startLimitFeed()
  const known = new Map<string, Uint8Array>()
  let version = 0
  return {
    settings,
    prepare(domains) {
      version += 1
      const resources = domains.map(domain => {
        const key = JSON.stringify(domain)
        const value = known.get(key) ?? messageOf(domain)
        known.set(key, value)
        return value
      })
      const bytes = encodeResponse(`${version}`, resources)
      return () => send(bytes)
    },
  }
}

function messageOf({ name, rules, limit, version }: LimitDomain): Uint8Array {
  const rateLimit = (requestsPerUnit: number) => ({ unit: RateLimitUnit.DAY, requestsPerUnit })
  const descriptors = Array.from({ length: rules }, (_, index) => ({
    ...{ key: 'account', value: accountOf(index) },
    rateLimit: rateLimit(limit),
  }))
  const probe = { key: 'probe', value: '', rateLimit: rateLimit(version) }
  return encodeDomain({ name, domain: name, descriptors: [probe, ...descriptors] })
}
