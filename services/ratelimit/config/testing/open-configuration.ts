import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { listLimits } from '../../rules/compile.ts'
import { createLimitStats } from '../../stats/limit-stats.ts'
import { createStats } from '../../stats/stats.ts'
import { createConfiguration } from '../configuration.ts'
import { findFiles } from '../find-files.ts'
import type { Reading } from '../reading.ts'

/** A configuration for tests of feeds, with helpers that describe it. */
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
     * Returns `a:1 b:2`: the active domains, sorted, each with its first limit; undefined before the first
     * load.
     */
    inForce(): string | undefined {
      const rules = configuration.rules()
      if (rules === undefined) return undefined
      return [...listLimits(rules)]
        .map(({ fullKey, requestsPerUnit }) => `${fullKey.split('.')[0]}:${requestsPerUnit}`)
        .sort()
        .join(' ')
    },
    loads: () => stats.counter('ratelimit.service.config_load_success').value,
    rejections: () => stats.counter('ratelimit.service.config_load_error').value,
  }
}

/**
 * Writes files such as `{'a.yaml': 'domain: a'}` into a temporary folder, and returns the reading of that
 * folder.
 */
export function filesReading(files: Readonly<Record<string, string>>): Reading {
  const folder = temporaryFolder('reading')
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return { from: 'files', ...findFiles(folder, { keyPrefix: '', ignoreDotFiles: false }) }
}
