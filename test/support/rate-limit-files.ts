import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from './temporary-folder.ts'

/** A folder of configuration files for the rate limit service, removed with the test. */
export interface RateLimitFiles {
  /** The settings for this folder; each change of a file is a reload. */
  readonly env: Readonly<Record<string, string>>
  /** Writes the file that the service reads. */
  write(yaml: string): void
}

/** @param yaml one configuration file */
export function rateLimitFiles(yaml: string): RateLimitFiles {
  const root = temporaryFolder('rate-limit')
  mkdirSync(join(root, 'config'))
  const write = (text: string) => writeFileSync(join(root, 'config/limits.yaml'), text)
  write(yaml)
  return { env: { RUNTIME_ROOT: root, RUNTIME_WATCH_ROOT: 'false' }, write }
}

/** Returns the domain `shop` with one limit of `user`: `3/day`. */
export function userLimit(limit: string): string {
  const [count = '', unit = ''] = limit.split('/')
  const rateLimit = `{unit: ${unit}, requests_per_unit: ${count}}`
  return `domain: shop\ndescriptors: [{key: user, rate_limit: ${rateLimit}}]\n`
}
