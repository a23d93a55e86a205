/**
 * Sends due mail until it is killed: `node mail-sender.ts DATABASE_URL SMTP_PORT [after-send]`. With `after-
 * send`, prints a line and waits after a mail is sent, before that is stored.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { sendDueMails } from '../mail/send-due-mails.ts'
import { createSmtpTransport } from '../mail/smtp-transport.ts'
import { openPostgres } from '../storage/engine/postgres.ts'

const [url = '', port = '', stopsAfterSend] = process.argv.slice(2)
const storage = openPostgres({ url, clock: systemClock, random: Math.random, maxConnections: 4 })
const smtp = createSmtpTransport({ host: '127.0.0.1', port: Number(port), tls: false, login: null })
const transport = {
  async send(mail: Parameters<typeof smtp.send>[0]) {
    await smtp.send(mail)
    if (stopsAfterSend === undefined) return
    process.stdout.write('sent, and not marked\n')
    await new Promise(() => {})
  },
}
const from = { name: 'Tollway', address: 'pay@example.com' }
const mailing = { storage, clock: systemClock, random: Math.random, transport, from, log: silentLog }
// Keeps the process running, because Node ends a process that only waits for a promise.
setInterval(() => {}, 60_000)
for (;;) if (!(await sendDueMails(mailing))) await pause(20)
