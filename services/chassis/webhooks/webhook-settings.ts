import { cidrs } from '../net/cidr.ts'
import { boolean, settingsTable } from '../settings.ts'

export const webhookSettings = settingsTable({
  webhookAllowedCidrs: {
    name: 'WEBHOOK_ALLOWED_CIDRS',
    kind: cidrs,
    fallback: '',
    help:
      'The private networks to which webhooks are posted. By default, webhooks are posted to public ' +
      'addresses only.',
  },
  webhookAllowHttp: {
    name: 'WEBHOOK_ALLOW_HTTP',
    kind: boolean,
    fallback: 'false',
    help: 'Whether webhooks are also posted to http:// URLs. By default, only https:// URLs are allowed.',
  },
})
