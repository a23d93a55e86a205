import { boolean, type SettingProblem, settingsTable, type Values } from '@tollway/chassis/settings.ts'
import { backendSettings } from './settings/backend-settings.ts'
import { configurationSettings } from './settings/configuration-settings.ts'
import { decisionSettings } from './settings/decision-settings.ts'
import { memcachedSettings } from './settings/memcached-settings.ts'
import { redisCompatibilitySettings, redisSettings } from './settings/redis-settings.ts'
import { serverSettings } from './settings/server-settings.ts'
import { statisticsSettings } from './settings/statistics-settings.ts'
import { tracingSettings } from './settings/tracing-settings.ts'

/**
 * Every setting of the rate limit service, under the specification's name; aliases are the reference's names.
 */
export const settings = settingsTable({
  ...configurationSettings,
  ...serverSettings,
  ...backendSettings,
  ...redisSettings,
  ...redisCompatibilitySettings,
  ...memcachedSettings,
  ...decisionSettings,
  ...statisticsSettings,
  ...tracingSettings,
})

export type Settings = Values<typeof settings>

/** The names of settings that this version does not honour yet. */
export const notSupported: readonly RegExp[] = [/^WORKERS$/]

/**
 * To start as if a setting was not there could leave a connection open or a limit uncounted, so a process
 * that is given one of these must not start. One that is switched off says nothing.
 */
export function findNotSupported(
  env: Readonly<Record<string, string | undefined>>,
): readonly SettingProblem[] {
  const asked = Object.keys(env).filter(name => env[name] && boolean.parse(env[name]) !== false)
  const message = 'this version does not support the setting; take it out to go on without it'
  return asked
    .filter(name => notSupported.some(pattern => pattern.test(name)))
    .map(name => ({ name, message }))
}
