import { cidrs } from '../net/cidr.ts'
import { boolean, settingsTable } from '../settings.ts'

/** The settings of `createAddressPolicy`, the same in every service that posts webhooks. */
export const webhookSettings = settingsTable({
  webhookAllowedCidrs: {
    name: 'WEBHOOK_ALLOWED_CIDRS',
    kind: cidrs,
    fallback: '',
    help: 'Networks that webhooks may go to though they are not public.',
  },
  webhookAllowHttp: {
    name: 'WEBHOOK_ALLOW_HTTP',
    kind: boolean,
    fallback: 'false',
    help: 'Whether webhooks may go to http:// besides https://.',
  },
})
