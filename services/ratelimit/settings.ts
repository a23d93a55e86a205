import { type SettingValues, settingsTable } from '@tollway/chassis/settings.ts'
import { tracingSettings } from '@tollway/chassis/tracing/tracing-settings.ts'
import { backendSettings } from './settings/backend-settings.ts'
import { configurationSettings } from './settings/configuration-settings.ts'
import { decisionSettings } from './settings/decision-settings.ts'
import { memcachedSettings } from './settings/memcached-settings.ts'
import { redisCompatibilitySettings, redisSettings } from './settings/redis-settings.ts'
import { serverSettings } from './settings/server-settings.ts'
import { reportSettings, statisticsSettings } from './settings/statistics-settings.ts'

/** The aliases of a setting are the names that envoyproxy/ratelimit has for it. */
export const settings = settingsTable({
  ...configurationSettings,
  ...serverSettings,
  ...backendSettings,
  ...redisSettings,
  ...redisCompatibilitySettings,
  ...memcachedSettings,
  ...decisionSettings,
  ...statisticsSettings,
  ...reportSettings,
  ...tracingSettings('RateLimit'),
})

export type Settings = SettingValues<typeof settings>
