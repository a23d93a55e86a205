import { logSettings } from '@tollway/chassis/log/log-settings.ts'
import { cidrs } from '@tollway/chassis/net/cidr.ts'
import {
  boolean,
  durationAtLeast,
  durationMs,
  integer,
  settingsTable,
  text,
  type Values,
} from '@tollway/chassis/settings.ts'
import { webhookSettings } from '@tollway/chassis/webhooks/webhook-settings.ts'
import { mailbox } from './mail/mailbox.ts'
import { smtpServer } from './mail/smtp-server.ts'
import { currencies, feeTable, rateTable, timeOfDay } from './settings-kinds.ts'

const port = integer(0, 65_535)
const trailLimit = integer(1, 10_000)
const invitationLimit = integer(1, 1_000_000)
const callLimit = integer(1, 10_000_000)

const serverSettings = settingsTable({
  host: {
    name: 'HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the API and the payment page.',
  },
  port: { name: 'PORT', kind: port, fallback: '8090', help: 'Their port.' },
  tlsCert: {
    name: 'TLS_CERT',
    kind: text,
    fallback: '',
    help: 'A certificate file in PEM: with it, that port uses TLS. Changes are followed.',
  },
  tlsKey: { name: 'TLS_KEY', kind: text, fallback: '', help: 'The file of its private key.' },
  trustedProxies: {
    name: 'TRUSTED_PROXIES',
    kind: cidrs,
    fallback: '',
    help:
      'Networks of the proxies in front of that port. Only they are believed when X-Forwarded-For names the ' +
      'client; without them, all clients of a proxy share one address, and the limits of one.',
  },
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '127.0.0.1',
    help: 'The address of the monitoring server. It asks for no password.',
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
    help: 'How long requests are taken after SIGTERM, while the process is not ready: callers must notice.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '20s',
    help: 'How long running requests may take after that.',
  },
  ...logSettings('info', 'The level of the log. Requests are logged at debug, without bodies and keys.'),
})

const callSettings = settingsTable({
  apiCallsPerKey: {
    name: 'API_CALLS_PER_KEY',
    kind: callLimit,
    fallback: '6000',
    help: 'How many calls of the API one key may make a minute.',
  },
  apiCallsPerAddress: {
    name: 'API_CALLS_PER_ADDRESS',
    kind: callLimit,
    fallback: '12000',
    help: 'How many calls of the API one address may make a minute (IPv6: one /64), with all of its keys.',
  },
  apiFailedKeysPerAddress: {
    name: 'API_FAILED_KEYS_PER_ADDRESS',
    kind: callLimit,
    fallback: '60',
    help: 'How many unknown keys one address may try in a minute. Further calls from it are rejected.',
  },
  rateLimitAddress: {
    name: 'RATE_LIMIT_ADDRESS',
    kind: text,
    fallback: '',
    help:
      'The gRPC port of a rate limit service, host:port, that counts these calls for all processes. Without it, ' +
      'and while it does not answer, each process counts by itself.',
  },
  rateLimitDomain: {
    name: 'RATE_LIMIT_DOMAIN',
    kind: text,
    fallback: 'tollway-payments-api',
    help: 'The domain of its limits, which are of the keys `key`, `address` and `failed_key`.',
  },
  rateLimitTimeoutMs: {
    name: 'RATE_LIMIT_TIMEOUT',
    kind: durationAtLeast(1),
    fallback: '20ms',
    help: 'The longest wait for its answer.',
  },
})

const provisionSettings = settingsTable({
  provisionHost: {
    name: 'PROVISION_HOST',
    kind: text,
    fallback: '127.0.0.1',
    help: 'The address of the server that merchants are provisioned through.',
  },
  provisionPort: {
    name: 'PROVISION_PORT',
    kind: port,
    fallback: '8091',
    help: 'Its port. It is opened only with PROVISION_TOKEN or PROVISION_TLS_CLIENT_CA.',
  },
  provisionToken: {
    name: 'PROVISION_TOKEN',
    kind: text,
    fallback: '',
    help: 'The bearer token that it asks for. A new token in the file is used at once.',
    secret: true,
  },
  provisionTlsCert: {
    name: 'PROVISION_TLS_CERT',
    kind: text,
    fallback: '',
    help: 'A certificate file in PEM: with it, that port uses TLS.',
  },
  provisionTlsKey: {
    name: 'PROVISION_TLS_KEY',
    kind: text,
    fallback: '',
    help: 'The file of its private key.',
  },
  provisionTlsClientCa: {
    name: 'PROVISION_TLS_CLIENT_CA',
    kind: text,
    fallback: '',
    help: 'A file of certificates in PEM: only clients with a certificate of one of them are let in.',
  },
  provisionTlsClientName: {
    name: 'PROVISION_TLS_CLIENT_NAME',
    kind: text,
    fallback: '',
    help: 'The DNS name that their certificates must be for. Without it, that of any client will do.',
  },
})

const storageSettings = settingsTable({
  stateDir: {
    name: 'STATE_DIR',
    kind: text,
    fallback: '.tollway',
    help: 'Its folder `payments` has the embedded database, and what this process keeps for itself.',
  },
  databaseUrl: {
    name: 'DATABASE_URL',
    kind: text,
    fallback: '',
    help:
      'PostgreSQL: postgres://user:password@host:port/database. Without it, the embedded database. The files of ' +
      '`sslrootcert`, `sslcert` and `sslkey` are read for each new connection.',
    secret: true,
  },
  databaseConnections: {
    name: 'DATABASE_CONNECTIONS',
    kind: integer(1, 1000),
    fallback: '16',
    help: 'Connections to PostgreSQL at most.',
  },
  databaseStatementTimeoutMs: {
    name: 'DATABASE_STATEMENT_TIMEOUT',
    kind: durationAtLeast(10),
    fallback: '5s',
    help: 'The longest that PostgreSQL may take for one statement.',
  },
})

/**
 * Sample rates and fees of no date and no bank, for trials. Installations that pay out have to set real ones.
 */
const sampleRates = {
  base: 'EUR',
  rates: {
    ...{ AUD: '1.66', CAD: '1.52', CHF: '0.95', CZK: '25', DKK: '7.46', GBP: '0.85', HUF: '395', ISK: '150' },
    ...{ JPY: '162', KWD: '0.33', NOK: '11.6', NZD: '1.82', PLN: '4.3', SEK: '11.3', USD: '1.08' },
  },
}

const moneySettings = settingsTable({
  fundingCurrencies: {
    name: 'FUNDING_CURRENCIES',
    kind: currencies,
    fallback: 'CHF,DKK,EUR,GBP,NOK,PLN,SEK,USD',
    help: 'What merchants can be paid in.',
  },
  exchangeRates: {
    name: 'EXCHANGE_RATES',
    kind: rateTable,
    fallback: JSON.stringify(sampleRates),
    help: 'The table that captures are exchanged by. Payments in other currencies are declined.',
  },
  fees: {
    name: 'FEES',
    kind: feeTable,
    fallback: '{}',
    help: 'What merchants pay, by their currency; a currency that is not listed is free of charge.',
  },
  authorisationLifetimeMs: {
    name: 'AUTHORISATION_LIFETIME',
    kind: durationAtLeast(1_000),
    fallback: '168h',
    help: 'How long an authorisation can be captured; then what is pending becomes void.',
  },
  authorisationSweepMs: {
    name: 'AUTHORISATION_SWEEP_AFTER',
    kind: durationAtLeast(1_000),
    fallback: '30m',
    help:
      'After which time an authorisation whose answer could not be stored, and whose request did not come again, ' +
      'is cancelled at the processor. Longer than callers repeat their requests.',
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
    help: 'Whether anybody may make an app by POST /apps.',
  },
  signupsPerMinute: {
    name: 'SIGNUPS_PER_MINUTE',
    kind: integer(1, 1_000_000),
    fallback: '60',
    help: 'How many apps may be made from one address.',
  },
  payAttemptsPerAddress: {
    name: 'PAY_ATTEMPTS_PER_ADDRESS',
    kind: integer(1, 1_000_000),
    fallback: '60',
    help: 'How many payments may be tried a minute on the payment page from one address (IPv6: one /64).',
  },
  payAttemptsPerMerchant: {
    name: 'PAY_ATTEMPTS_PER_MERCHANT',
    kind: integer(1, 1_000_000),
    fallback: '600',
    help: 'How many payments may be tried a minute on the page of one merchant. API calls do not count.',
  },
  testProcessorKey: {
    name: 'TEST_PROCESSOR_KEY',
    kind: text,
    fallback: '',
    help:
      'Secret of the test processor’s tokens, at least 16 characters, the same in all processes of one ' +
      'database. Without it, one is made and kept in STATE_DIR.',
    secret: true,
  },
  payPageSecret: {
    name: 'PAY_PAGE_SECRET',
    kind: text,
    fallback: '',
    help:
      'Secrets of the payment page’s forms, one a line, each of at least 32 characters, the same in all processes ' +
      'of one database. The first seals, all of them open. A file is read again when it changes. Without it, one is ' +
      'made and kept in STATE_DIR.',
    secret: true,
  },
  payPageCheckUrl: {
    name: 'PAY_PAGE_CHECK_URL',
    kind: text,
    fallback: '',
    help:
      'Address of the payment page as payers reach it, such as https://pay.example.org/pay/. Its headers and ' +
      'scripts are compared with the inventory every five minutes. Without it there is no check.',
  },
  testProcessorEventDelayMs: {
    name: 'TEST_PROCESSOR_EVENT_DELAY',
    kind: durationMs,
    fallback: '1s',
    help: 'After which time the test processor reports frauds and disputes.',
  },
  idempotencyLeaseMs: {
    name: 'IDEMPOTENCY_LEASE',
    kind: durationAtLeast(1_000),
    fallback: '60s',
    help:
      'After which time a request with an Idempotency-Key whose process was killed may be repeated. Longer than ' +
      'any request runs.',
  },
  backgroundIntervalMs: {
    name: 'BACKGROUND_INTERVAL',
    kind: durationAtLeast(10),
    fallback: '1s',
    help: 'How often the processor is asked for events, and the books for what is due.',
  },
})

const deliverySettings = settingsTable({
  mailSmtpUrl: {
    name: 'MAIL_SMTP_URL',
    kind: smtpServer,
    fallback: '',
    help: 'The server that takes mail. Without it, mail goes into files in the folder `mail` of STATE_DIR.',
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
    help: 'How many people one app may invite a day, to all of its merchants.',
  },
  invitationsPerMerchant: {
    name: 'INVITATIONS_PER_MERCHANT',
    kind: invitationLimit,
    fallback: '50',
    help: 'How many people one merchant may invite a day.',
  },
  invitationsPerRecipient: {
    name: 'INVITATIONS_PER_RECIPIENT',
    kind: invitationLimit,
    fallback: '3',
    help:
      'How many invitations one address is sent a day, from all merchants together. Beyond it the person becomes ' +
      'a member without a mail.',
  },
  ...webhookSettings,
  deliveryRetentionDays: {
    name: 'DELIVERY_RETENTION_DAYS',
    kind: integer(1, 3_650),
    fallback: '30',
    help: 'How many days it stays known what became of mail and of each delivery of an event.',
  },
  eventRetentionDays: {
    name: 'EVENT_RETENTION_DAYS',
    kind: integer(1, 36_500),
    fallback: '730',
    help:
      'How many days the log of events goes back. An older event is removed once none of its deliveries waits to be ' +
      'delivered. The books stay.',
  },
  payoutTime: {
    name: 'PAYOUT_TIME',
    kind: timeOfDay,
    fallback: '',
    help: 'When each day merchants are paid their balance, in UTC. Else by `tollway payments payout`.',
  },
})

/** Every setting of the payments service. */
export const settings = settingsTable({
  ...serverSettings,
  ...callSettings,
  ...provisionSettings,
  ...storageSettings,
  ...moneySettings,
  ...deliverySettings,
})

export type Settings = Values<typeof settings>
