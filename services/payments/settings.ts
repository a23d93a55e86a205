import { isObject } from '@tollway/chassis/is-object.ts'
import { parseJson } from '@tollway/chassis/json.ts'
import { logSettings } from '@tollway/chassis/log/log-settings.ts'
import { cidrs } from '@tollway/chassis/net/cidr.ts'
import {
  boolean,
  durationAtLeast,
  durationMs,
  integer,
  type SettingKind,
  type SettingValues,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'
import { webhookSettings } from '@tollway/chassis/webhooks/webhook-settings.ts'
import { parseRateTable, type RateTable } from './domain/money/exchange.ts'
import { type FeeRuleText, type FeeTable, parseFeeTable } from './domain/money/fees.ts'
import { isCurrency } from './domain/money/money.ts'
import { mailbox } from './mail/mail-transport.ts'
import { smtpServer } from './mail/smtp-server.ts'

const port = integer(0, 65_535)
const trailLimit = integer(1, 10_000)
const invitationLimit = integer(1, 1_000_000)
const callLimit = integer(1, 10_000_000)

const currencies: SettingKind<readonly string[]> = {
  allowed: 'currencies of ISO 4217 such as DKK,EUR',
  parse: value => {
    const codes = value.split(',').map(code => code.trim())
    return codes.every(isCurrency) ? codes : undefined
  },
}

/** Exchange rates: how many major units of a currency one major unit of the base currency is worth. */
const rateTable: SettingKind<RateTable> = {
  allowed: 'JSON such as {"base": "EUR", "rates": {"DKK": "7.46"}}, with rates as strings of decimal numbers',
  parse: value => {
    const json = parseJson(value)
    if (!isObject(json) || typeof json['base'] !== 'string' || !isTexts(json['rates'])) return undefined
    const parsed = parseRateTable(json['base'], json['rates'])
    return 'table' in parsed ? parsed.table : undefined
  },
}

const feeTable: SettingKind<FeeTable> = {
  allowed:
    'JSON such as {"DKK": {"capture": {"flat": "25", "rate": "0.0135"}}}, for capture, refund and dispute, ' +
    'with numbers as strings',
  parse: value => {
    const json = parseJson(value)
    if (!isObject(json) || !Object.values(json).every(isRules)) return undefined
    const parsed = parseFeeTable(json as Readonly<Record<string, Readonly<Record<string, FeeRuleText>>>>)
    return 'table' in parsed ? parsed.table : undefined
  },
}

/** A time of day in minutes since midnight; null if the setting is empty. */
const timeOfDay: SettingKind<number | null> = {
  allowed: 'a time of day such as 04:30, or empty',
  parse: value => {
    if (value === '') return null
    const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(value) ?? []
    return hours === undefined ? undefined : Number(hours) * 60 + Number(minutes)
  },
}

function isRules(rules: unknown): boolean {
  return isObject(rules) && Object.values(rules).every(isTexts)
}

function isTexts(fields: unknown): fields is Readonly<Record<string, string>> {
  return isObject(fields) && Object.values(fields).every(field => typeof field === 'string')
}

/** Invented exchange rates for trials. Installations that pay out must configure real rates. */
const sampleRates =
  '{"base":"EUR","rates":{"AUD":"1.66","CAD":"1.52","CHF":"0.95","CZK":"25","DKK":"7.46","GBP":"0.85",' +
  '"HUF":"395","ISK":"150","JPY":"162","KWD":"0.33","NOK":"11.6","NZD":"1.82","PLN":"4.3","SEK":"11.3",' +
  '"USD":"1.08"}}'

export const settings = settingsTable({
  host: {
    name: 'HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the API and the payment page.',
  },
  port: { name: 'PORT', kind: port, fallback: '8090', help: 'The port of the API and the payment page.' },
  tlsCert: {
    name: 'TLS_CERT',
    kind: text,
    fallback: '',
    help:
      'The file of the certificate of PORT in PEM. With it, the port uses TLS. It is read again when ' +
      'it changes.',
  },
  tlsKey: { name: 'TLS_KEY', kind: text, fallback: '', help: 'The file of the private key of TLS_CERT.' },
  trustedProxies: {
    name: 'TRUSTED_PROXIES',
    kind: cidrs,
    fallback: '',
    help:
      'The networks of the proxies in front of PORT. The service uses X-Forwarded-For only in requests of these ' +
      'proxies. The clients of any other proxy share the address of the proxy, and its limits.',
  },
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '127.0.0.1',
    help: 'The address of the monitoring server, which requires no password.',
  },
  debugPort: {
    name: 'DEBUG_PORT',
    kind: port,
    fallback: '6073',
    help: 'The port of the monitoring server: metrics, statistics and health.',
  },
  drainDelayMs: {
    name: 'DRAIN_DELAY',
    kind: durationMs,
    fallback: '5s',
    help: 'The time after SIGTERM in which the process is not ready and still accepts requests.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '20s',
    help: 'The time after DRAIN_DELAY at which running requests are closed.',
  },
  ...logSettings(
    'info',
    'The minimum level of log lines. Requests are logged at debug, without bodies and keys.',
  ),
  apiCallsPerKey: {
    name: 'API_CALLS_PER_KEY',
    kind: callLimit,
    fallback: '6000',
    help: 'The maximum number of API calls a minute with one key.',
  },
  apiCallsPerAddress: {
    name: 'API_CALLS_PER_ADDRESS',
    kind: callLimit,
    fallback: '12000',
    help: 'The maximum number of API calls a minute from one address (IPv6: one /64) with all keys together.',
  },
  apiFailedKeysPerAddress: {
    name: 'API_FAILED_KEYS_PER_ADDRESS',
    kind: callLimit,
    fallback: '60',
    help:
      'The maximum number of API calls a minute with unknown keys from one address. Further calls ' +
      'from it are rejected.',
  },
  rateLimitAddress: {
    name: 'RATE_LIMIT_ADDRESS',
    kind: text,
    fallback: '',
    help:
      'The gRPC address, host:port, of a rate limit service that counts API calls for all processes. Without it, ' +
      'and while it does not answer, each process counts separately.',
  },
  rateLimitDomain: {
    name: 'RATE_LIMIT_DOMAIN',
    kind: text,
    fallback: 'tollway-payments-api',
    help:
      'The domain of the limits in the rate limit service. Their keys are `key`, `address` and ' +
      '`failed_key`.',
  },
  rateLimitTimeoutMs: {
    name: 'RATE_LIMIT_TIMEOUT',
    kind: durationAtLeast(1),
    fallback: '20ms',
    help: 'The timeout of calls of the rate limit service.',
  },
  provisionHost: {
    name: 'PROVISION_HOST',
    kind: text,
    fallback: '127.0.0.1',
    help: 'The address of the provisioning server, through which the operator manages merchants.',
  },
  provisionPort: {
    name: 'PROVISION_PORT',
    kind: port,
    fallback: '8091',
    help:
      'The port of the provisioning server. It is open only with PROVISION_TOKEN or ' +
      'PROVISION_TLS_CLIENT_CA.',
  },
  provisionToken: {
    name: 'PROVISION_TOKEN',
    kind: text,
    fallback: '',
    help: 'The bearer token of the provisioning server. A new token in the file is used at once.',
    secret: true,
  },
  provisionTlsCert: {
    name: 'PROVISION_TLS_CERT',
    kind: text,
    fallback: '',
    help: 'The file of the certificate of PROVISION_PORT in PEM. With it, the port uses TLS.',
  },
  provisionTlsKey: {
    name: 'PROVISION_TLS_KEY',
    kind: text,
    fallback: '',
    help: 'The file of the private key of PROVISION_TLS_CERT.',
  },
  provisionTlsClientCa: {
    name: 'PROVISION_TLS_CLIENT_CA',
    kind: text,
    fallback: '',
    help: 'The file of certificate authorities in PEM. With it, clients need a certificate of one of them.',
  },
  provisionTlsClientName: {
    name: 'PROVISION_TLS_CLIENT_NAME',
    kind: text,
    fallback: '',
    help: 'The DNS name that the certificate of a client must have. Empty allows any name.',
  },
  stateDir: {
    name: 'STATE_DIR',
    kind: text,
    fallback: '.tollway',
    help: 'The state folder. Its folder `payments` has the embedded database and the files of this process.',
  },
  databaseUrl: {
    name: 'DATABASE_URL',
    kind: text,
    fallback: '',
    help:
      'The address of PostgreSQL: postgres://user:password@host:port/database. Without it, the service uses the ' +
      'embedded database. The files of `sslrootcert`, `sslcert` and `sslkey` are read for each new ' +
      'connection.',
    secret: true,
  },
  databaseConnections: {
    name: 'DATABASE_CONNECTIONS',
    kind: integer(1, 1000),
    fallback: '16',
    help: 'The maximum number of connections to PostgreSQL.',
  },
  databaseStatementTimeoutMs: {
    name: 'DATABASE_STATEMENT_TIMEOUT',
    kind: durationAtLeast(10),
    fallback: '5s',
    help: 'The timeout of one statement in PostgreSQL.',
  },
  fundingCurrencies: {
    name: 'FUNDING_CURRENCIES',
    kind: currencies,
    fallback: 'CHF,DKK,EUR,GBP,NOK,PLN,SEK,USD',
    help: 'The currencies of payouts, as ISO 4217 codes.',
  },
  exchangeRates: {
    name: 'EXCHANGE_RATES',
    kind: rateTable,
    fallback: sampleRates,
    help: 'The exchange rates of captures. Payments in currencies without a rate are declined.',
  },
  fees: {
    name: 'FEES',
    kind: feeTable,
    fallback: '{}',
    help: 'The fees of merchants, by the currency of their payouts. A currency without an entry has no fees.',
  },
  authorisationLifetimeMs: {
    name: 'AUTHORISATION_LIFETIME',
    kind: durationAtLeast(1_000),
    fallback: '168h',
    help: 'The time for which an authorisation can be captured. After it, the pending amount is voided.',
  },
  authorisationSweepMs: {
    name: 'AUTHORISATION_SWEEP_AFTER',
    kind: durationAtLeast(1_000),
    fallback: '30m',
    help:
      'The time after which an authorisation is cancelled at the processor if its result could not be stored and ' +
      'its request was not repeated. Set it longer than callers repeat their requests.',
  },
  maxCaptures: {
    name: 'MAX_CAPTURES',
    kind: trailLimit,
    fallback: '100',
    help: 'The maximum number of captures of a transaction. The last one should capture the rest.',
  },
  maxRefunds: {
    name: 'MAX_REFUNDS',
    kind: trailLimit,
    fallback: '100',
    help: 'The maximum number of refunds of a transaction. The last one should refund the rest.',
  },
  maxVoids: {
    name: 'MAX_VOIDS',
    kind: trailLimit,
    fallback: '100',
    help: 'The maximum number of voids of a transaction through the API. Expiry voids the rest.',
  },
  openSignup: {
    name: 'OPEN_SIGNUP',
    kind: boolean,
    fallback: 'true',
    help: 'Whether everyone can create an app by POST /apps.',
  },
  signupsPerMinute: {
    name: 'SIGNUPS_PER_MINUTE',
    kind: integer(1, 1_000_000),
    fallback: '60',
    help: 'The maximum number of apps created a minute from one address.',
  },
  payAttemptsPerAddress: {
    name: 'PAY_ATTEMPTS_PER_ADDRESS',
    kind: integer(1, 1_000_000),
    fallback: '60',
    help:
      'The maximum number of payment attempts a minute on the payment page from one address (IPv6: ' +
      'one /64).',
  },
  payAttemptsPerMerchant: {
    name: 'PAY_ATTEMPTS_PER_MERCHANT',
    kind: integer(1, 1_000_000),
    fallback: '600',
    help:
      'The maximum number of payment attempts a minute on the payment page of one merchant. API ' +
      'calls do not count.',
  },
  testProcessorKey: {
    name: 'TEST_PROCESSOR_KEY',
    kind: text,
    fallback: '',
    help:
      'The secret of the test processor’s tokens, with at least 16 characters. All processes of one database need ' +
      'the same secret. Without it, the service generates one and stores it in STATE_DIR.',
    secret: true,
  },
  payPageSecret: {
    name: 'PAY_PAGE_SECRET',
    kind: text,
    fallback: '',
    help:
      'The secrets of the payment page’s forms, one in each line, with at least 32 characters each. All processes ' +
      'of one database need the same secrets. New forms are sealed with the first secret, and forms with any of ' +
      'them are accepted. A file is read again when it changes. Without it, the service generates a secret and ' +
      'stores it in STATE_DIR.',
    secret: true,
  },
  payPageCheckUrl: {
    name: 'PAY_PAGE_CHECK_URL',
    kind: text,
    fallback: '',
    help:
      'The public URL of the payment page, such as https://pay.example.org/pay/. The service compares the headers ' +
      'and scripts at this URL with the inventory every five minutes. Without it there is no check.',
  },
  testProcessorEventDelayMs: {
    name: 'TEST_PROCESSOR_EVENT_DELAY',
    kind: durationMs,
    fallback: '1s',
    help: 'The delay after which the test processor reports frauds and disputes.',
  },
  idempotencyLeaseMs: {
    name: 'IDEMPOTENCY_LEASE',
    kind: durationAtLeast(1_000),
    fallback: '60s',
    help:
      'The time after which a request with an Idempotency-Key can be repeated if its process was killed. Set it ' +
      'longer than any request runs.',
  },
  backgroundIntervalMs: {
    name: 'BACKGROUND_INTERVAL',
    kind: durationAtLeast(10),
    fallback: '1s',
    help:
      'The interval of background tasks, which read events of the processor and execute ' +
      'due instructions, payouts and expiries.',
  },
  mailSmtpUrl: {
    name: 'MAIL_SMTP_URL',
    kind: smtpServer,
    fallback: '',
    help: 'The SMTP server for mail. Without it, mail is written to files in the folder `mail` of STATE_DIR.',
    secret: true,
  },
  mailFrom: {
    name: 'MAIL_FROM',
    kind: mailbox,
    fallback: 'Tollway <tollway@localhost>',
    help: 'The sender of mails. The part after the @ is also the domain of each Message-ID.',
  },
  invitationsPerApp: {
    name: 'INVITATIONS_PER_APP',
    kind: invitationLimit,
    fallback: '100',
    help: 'The maximum number of invitations a day by one app, to all of its merchants together.',
  },
  invitationsPerMerchant: {
    name: 'INVITATIONS_PER_MERCHANT',
    kind: invitationLimit,
    fallback: '50',
    help: 'The maximum number of invitations a day to one merchant.',
  },
  invitationsPerRecipient: {
    name: 'INVITATIONS_PER_RECIPIENT',
    kind: invitationLimit,
    fallback: '3',
    help:
      'The maximum number of invitations a day to one e-mail address, from all merchants together. Beyond it, the ' +
      'person becomes a member without a mail.',
  },
  ...webhookSettings,
  deliveryRetentionDays: {
    name: 'DELIVERY_RETENTION_DAYS',
    kind: integer(1, 3_650),
    fallback: '30',
    help: 'The time in days for which the results of mail and of deliveries of events are kept.',
  },
  eventRetentionDays: {
    name: 'EVENT_RETENTION_DAYS',
    kind: integer(1, 36_500),
    fallback: '730',
    help:
      'The time in days for which events are kept. An older event is deleted when none of its deliveries is ' +
      'pending. The books are kept.',
  },
  payoutTime: {
    name: 'PAYOUT_TIME',
    kind: timeOfDay,
    fallback: '',
    help:
      'The time of day, in UTC, of the daily payout of balances. By default, only `tollway payments ' +
      'payout` pays out.',
  },
})

export type Settings = SettingValues<typeof settings>
