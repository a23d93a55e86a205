import { runService } from '@tollway/chassis/run-service.ts'
import { startService } from './service.ts'
import { settings } from './settings.ts'

await runService({ settings, start: startService })
