import Type, { type Static } from 'typebox'
import { describeFound } from './describe.ts'
import { ageColumn, type ResourceKind, readyColumn } from './resource-kind.ts'
import { commonStatus } from './resource-status.ts'
import {
  type CelRule,
  type DeepReadonly,
  type FieldRule,
  isFields,
  notRequired,
  withRules,
} from './schema.ts'

/** The limits of the fields; lengths are in characters. */
const limits = {
  maxNameLength: 100,
  maxEmailLength: 254,
  maxUrlLength: 2048,
  maxIbanLength: 64,
  maxUsers: 100,
  maxWebhooks: 20,
} as const

/** The types of events that a merchant's webhooks can receive, with the names of the payments service. */
const merchantEvents = [
  'merchant.created',
  'merchant.updated',
  'merchant.closed',
  'transaction.created',
  'transaction.captured',
  'transaction.refunded',
  'transaction.voided',
  'transaction.expired',
  'card.saved',
  'dispute.raised',
  'dispute.won',
  'dispute.lost',
  'fraud.reported',
  'payout.created',
] as const

/**
 * The values in the Secret with a merchant's credentials. By default, the entry of each has the same name.
 */
const credentialEntries = ['apiKey', 'appId', 'merchantId', 'publicKey', 'baseUrl', 'payPageUrl'] as const
type CredentialEntry = (typeof credentialEntries)[number]

export type MerchantSpec = DeepReadonly<Static<typeof spec>>

/**
 * Makes a field immutable, because the payments service never changes the value. Only an API server can
 * validate this, since it knows the previous value; without an API server, the payments service rejects the
 * change.
 */
function immutable(
  field: string,
  advice: string,
): { readonly 'x-kubernetes-validations': readonly CelRule[] } {
  const message = `${field} is fixed since the Merchant was created; ${advice}`
  return { 'x-kubernetes-validations': [{ rule: 'self == oldSelf', message }] }
}

/**
 * Returns the rule that makes an optional field immutable: it can be neither changed nor added nor removed.
 */
function immutableOptional(field: string, advice: string): CelRule {
  const [now, before] = [`self.${field}`, `oldSelf.${field}`]
  return {
    rule: `has(${now}) ? has(${before}) && ${now} == ${before} : !has(${before})`,
    message: `${field} is fixed since the Merchant was created; ${advice}`,
  }
}

const another = 'create another Merchant, and delete this one when it is no longer used'

const text = (maxLength: number, description: string) => Type.String({ minLength: 1, maxLength, description })

const secretName = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 253,
    pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
    description,
  })

const entryName = (entry: string, description: string) =>
  Type.String({ default: entry, minLength: 1, maxLength: 253, pattern: '^[-._a-zA-Z0-9]+$', description })

const secretEntry = (entry: string, description: string) =>
  Type.Object(
    {
      name: secretName('The name of the Secret, which is in the namespace of the Merchant.'),
      key: entryName(entry, 'The entry in it.'),
    },
    { required: ['name'], description },
  )

const duration = (description: string) => ({
  maxLength: 6,
  pattern: '^[1-9][0-9]{0,4}[mhd]$',
  description: `${description} A number with m, h or d for minutes, hours or days: 90d.`,
})

const company = Type.Object(
  {
    country: Type.String({
      maxLength: 2,
      pattern: '^[A-Z]{2}$',
      description: 'The country of the company, as an ISO 3166 code: DK.',
    }),
    number: Type.Optional(
      text(limits.maxNameLength, 'The registration number of the company in its country.'),
    ),
  },
  {
    ...immutable('company', `another company is another merchant: ${another}`),
    required: ['country'],
    description: 'The company that owns the merchant.',
  },
)

const bank = Type.Object(
  {
    iban: Type.Optional(
      Type.String({
        minLength: 5,
        maxLength: limits.maxIbanLength,
        pattern: '^[A-Za-z]{2}[0-9A-Za-z ]+$',
        description: 'The account number with valid check digits. Spaces are ignored.',
      }),
    ),
  },
  { description: 'The account that payouts go to.' },
)

const app = Type.Object(
  {
    name: Type.Optional(text(limits.maxNameLength, 'The display name of the app. By default it has none.')),
    rotateAfter: Type.Optional(
      Type.String(
        duration('The age at which the API key is replaced. By default it is replaced only on request.'),
      ),
    ),
    keyGrace: Type.String({
      default: '24h',
      ...duration('The time for which the previous API key stays valid after a rotation.'),
    }),
  },
  {
    ...notRequired,
    default: {},
    description: 'The app that the API key belongs to. It has full access to the merchant.',
  },
)

const distinctEntries: FieldRule = {
  cel: {
    rule: `[${credentialEntries.map(entry => `self.${entry}`).join(', ')}].all(name, [${credentialEntries
      .map(entry => `self.${entry}`)
      .join(', ')}].exists_one(other, other == name))`,
    message: 'two values cannot share one entry; give each its own name',
  },
  judge(written) {
    const seen = new Map<unknown, string>()
    return credentialEntries.flatMap(entry => {
      const name = written[entry] ?? entry
      const before = seen.get(name)
      seen.set(name, entry)
      if (before === undefined) return []
      return [{ path: entry, message: `${describeFound(name)} is the entry of ${before} already` }]
    })
  },
}

const entryDescriptions: Readonly<Record<CredentialEntry, string>> = {
  apiKey: 'The entry with the API key, which is the only secret value.',
  appId: 'The entry with the id of the app.',
  merchantId: 'The entry with the id of the merchant.',
  publicKey: 'The entry with the public key, for payment links.',
  baseUrl: 'The entry with the address of the API.',
  payPageUrl: 'The entry with the address of the payment page.',
}

const keys = Type.Object(
  {
    apiKey: entryName('apiKey', entryDescriptions.apiKey),
    appId: entryName('appId', entryDescriptions.appId),
    merchantId: entryName('merchantId', entryDescriptions.merchantId),
    publicKey: entryName('publicKey', entryDescriptions.publicKey),
    baseUrl: entryName('baseUrl', entryDescriptions.baseUrl),
    payPageUrl: entryName('payPageUrl', entryDescriptions.payPageUrl),
  },
  {
    ...notRequired,
    ...withRules([distinctEntries]),
    // The default has every field, because the API server validates it before it fills in the defaults of the
    // fields in it.
    default: Object.fromEntries(credentialEntries.map(entry => [entry, entry])),
    description: 'The names of the entries, for programs that read them as environment variables.',
  },
)

const secretRef = Type.Object(
  {
    name: Type.Optional(secretName('The name of the Secret. By default it is the name of the Merchant.')),
    keys,
  },
  {
    ...notRequired,
    ...immutable('secretRef', 'copy the Secret where another name is needed'),
    default: {},
    description:
      'The Secret to which the operator writes the credentials, in the namespace of the Merchant. The operator ' +
      'creates it. It never changes a Secret that it did not create, and reports it in the status.',
  },
)

const webhook = Type.Object(
  {
    url: Type.String({
      maxLength: limits.maxUrlLength,
      pattern: '^https?://[^\\s]+$',
      description: 'The URL to which events are posted.',
    }),
    events: Type.Array(Type.Enum(merchantEvents, { type: 'string', description: 'A type of event.' }), {
      default: [],
      maxItems: merchantEvents.length,
      'x-kubernetes-list-type': 'atomic',
      description: 'The types of events that the receiver gets. Empty means all types.',
    }),
    secretRef: secretEntry(
      'secret',
      'The key of the signatures: "whsec_" and 24 to 64 random bytes in base64. With a second key in a second ' +
        'line, each event has a signature by both, so that receivers can change from one key to the other.',
    ),
  },
  { required: ['url', 'secretRef'], description: 'A receiver of events.' },
)

const oneWebhookAnAddress: FieldRule = {
  cel: {
    rule: 'self.webhooks.all(one, self.webhooks.exists_one(other, other.url == one.url))',
    message: 'two webhooks cannot have one url; put the events of both into one',
  },
  judge({ webhooks }) {
    const seen = new Set<unknown>()
    const list = Array.isArray(webhooks) ? webhooks : []
    return list.flatMap((webhook: unknown, index) => {
      const url = isFields(webhook) ? webhook['url'] : undefined
      if (typeof url !== 'string') return []
      if (!seen.has(url)) {
        seen.add(url)
        return []
      }
      const message = `${describeFound(url)} is that of a webhook above; put the events of both into one`
      return [{ path: `webhooks[${index}].url`, message }]
    })
  },
}

const adopt = Type.Object(
  {
    merchantId: Type.String({
      maxLength: 36,
      pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
      description: 'The id of the merchant.',
    }),
    apiKeySecretRef: secretEntry(
      'apiKey',
      'An API key of the merchant, which proves the right to adopt it. Its id is not secret.',
    ),
  },
  {
    required: ['merchantId', 'apiKeySecretRef'],
    description:
      'An existing merchant that the resource manages instead of a new one. The immutable fields of the spec must ' +
      'have the values of the merchant. It gets an app and an API key of its own for this resource.',
  },
)

const ofWhole = withRules([oneWebhookAnAddress])

const spec = Type.Object(
  {
    name: Type.Optional(text(limits.maxNameLength, 'The display name of the merchant. Mutable.')),
    currency: Type.String({
      ...immutable('currency', `payouts are in one currency: ${another}`),
      maxLength: 3,
      pattern: '^[A-Z]{3}$',
      description:
        'The currency of payouts: an ISO 4217 code that the payments service supports, such as DKK. Immutable.',
    }),
    test: Type.Boolean({
      ...immutable('test', `payments that are real and those that are not are kept apart: ${another}`),
      default: true,
      description: 'Whether the merchant accepts test cards only, and no money moves. Immutable.',
    }),
    email: Type.String({
      maxLength: limits.maxEmailLength,
      pattern: '^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$',
      description: 'The e-mail address of the merchant. Mutable.',
    }),
    website: Type.String({
      ...immutable('website', `another website is another merchant: ${another}`),
      maxLength: limits.maxUrlLength,
      pattern: '^https?://[^\\s]+$',
      description: 'The URL of the shop. Immutable.',
    }),
    descriptor: Type.String({
      maxLength: 22,
      pattern: '^[\\x20-\\x7E]{0,22}$',
      description: 'The text on bank statements, in printable ASCII. Mutable.',
    }),
    company,
    bank: Type.Optional(bank),
    app,
    secretRef,
    users: Type.Array(
      Type.String({
        maxLength: limits.maxEmailLength,
        pattern: '^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$',
        description: 'An e-mail address.',
      }),
      {
        default: [],
        maxItems: limits.maxUsers,
        'x-kubernetes-list-type': 'atomic',
        description:
          'The e-mail addresses of people who are invited to the merchant. Removing an address removes no member.',
      },
    ),
    webhooks: Type.Array(webhook, {
      default: [],
      maxItems: limits.maxWebhooks,
      'x-kubernetes-list-type': 'atomic',
      description: 'The receivers of events. A removed receiver gets no further events.',
    }),
    deletionPolicy: Type.Enum(['Retain', 'Delete'], {
      type: 'string',
      default: 'Retain',
      description:
        'What happens to the merchant when the resource is deleted. Retain leaves it unchanged. Delete closes it: ' +
        'its API keys and new payments are rejected, and its books remain.',
    }),
    adopt: Type.Optional(adopt),
  },
  {
    required: ['currency', 'email', 'website', 'descriptor', 'company'],
    rules: ofWhole.rules,
    'x-kubernetes-validations': [
      ...ofWhole['x-kubernetes-validations'],
      immutableOptional('bank', `payouts go to one account: ${another}`),
      immutableOptional('adopt', another),
    ],
    description: 'The desired merchant, and the Secret for its credentials.',
  },
)

const reported = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ maxLength, description }))

const status = Type.Object(
  {
    ...commonStatus(),
    merchantId: reported(64, 'The id of the merchant. It never changes.'),
    publicKey: reported(64, 'The public key of payment links. It grants no access to the API.'),
    appId: reported(64, 'The id of the app.'),
    payLink: reported(
      4096,
      'The beginning of a payment link. Append the amount in minor units, and optional parameters such as &reference=.',
    ),
    posLink: reported(4096, 'The link of a point of sale, whose page asks for the amount.'),
    secretName: reported(253, 'The Secret with the credentials.'),
  },
  { description: 'The observed state. Only the operator writes it.' },
)

export const merchantKind: ResourceKind = {
  kind: 'Merchant',
  version: 'v1alpha1',
  plural: 'merchants',
  singular: 'merchant',
  shortNames: ['mer'],
  description: 'A merchant of the payments service, with an app and its API key in a Secret.',
  spec,
  status,
  columns: [
    {
      name: 'Id',
      type: 'string',
      jsonPath: '.status.merchantId',
      description: 'The id of the merchant.',
    },
    {
      name: 'Currency',
      type: 'string',
      jsonPath: '.spec.currency',
      description: 'The currency of its payouts.',
    },
    {
      name: 'Test',
      type: 'boolean',
      jsonPath: '.spec.test',
      description: 'Whether the merchant accepts test cards only.',
    },
    {
      name: 'Credentials',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="CredentialsReady")].status',
      description: 'Whether the Secret has the API key and the ids.',
    },
    readyColumn('Whether the merchant exists, and the Secret has its credentials.'),
    ageColumn,
  ],
}
