/** Delivers due events in a loop until it is killed: `node webhook-sender.ts DATABASE_URL`. */
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { resolveBySystem } from '@tollway/chassis/webhooks/post-webhook.ts'
import { WebhookDeliverer } from '../deliver-webhooks.ts'
import { openPostgres } from '../storage/engine/postgres.ts'

const [url = ''] = process.argv.slice(2)
const storage = openPostgres({ url, clock: systemClock, random: Math.random, maxConnections: 4 })
const policy = new AddressPolicy([{ address: '127.0.0.1', prefix: 32 }], true)
const common = { storage, clock: systemClock, random: Math.random, resolve: resolveBySystem, log: silentLog }
const deliverer = new WebhookDeliverer({ ...common, policy })
for (;;) if (!(await deliverer.deliverDue())) await pause(10)
