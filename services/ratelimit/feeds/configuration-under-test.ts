import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Log, silentLog } from '@tollway/chassis/log.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { limitsOf } from '../rules/compile.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { createConfiguration } from './configuration.ts'
import { findFiles } from './find-files.ts'
import type { Reading } from './reading.ts'

/** A configuration for tests of feeds, and what they ask about it. */
export function openConfiguration(
  spelling: 'snake' | 'camel',
  {
    mergeDomainConfigs = false,
    inlineBytes,
  }: { readonly mergeDomainConfigs?: boolean; readonly inlineBytes?: number } = {},
) {
  const errors: string[] = []
  const warnings: string[] = []
  const log: Log = {
    ...silentLog,
    error: message => void errors.push(message),
    warn: (message, fields) => void warnings.push([message, ...Object.values(fields ?? {})].join(' ')),
  }
  const stats = createStats()
  const configuration = createConfiguration({
    stats,
    limitStats: createLimitStats(stats, () => {}),
    log,
    ...(inlineBytes !== undefined && { inlineBytes }),
    mergeDomainConfigs,
    spelling,
  })
  return {
    configuration,
    stats,
    log,
    errors,
    warnings,
    /**
     * `a:1 b:2`: the domains in force, sorted, each with its first limit; undefined before the first load.
     */
    inForce(): string | undefined {
      const rules = configuration.rules()
      if (rules === undefined) return undefined
      return [...limitsOf(rules)]
        .map(({ fullKey, requestsPerUnit }) => `${fullKey.split('.')[0]}:${requestsPerUnit}`)
        .sort()
        .join(' ')
    },
    loads: () => stats.counter('ratelimit.service.config_load_success').value,
    refusals: () => stats.counter('ratelimit.service.config_load_error').value,
  }
}

/** Files below a folder of the test's own, `{'a.yaml': 'domain: a'}`, that are to be read. */
export function filesReading(files: Readonly<Record<string, string>>): Reading {
  const folder = temporaryFolder('reading')
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return { from: 'files', ...findFiles(folder, { keyPrefix: '', ignoreDotFiles: false }) }
}
