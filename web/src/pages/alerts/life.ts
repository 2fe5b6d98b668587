import type { Alert } from '@/watching/types'

/** What people can say to an alert in each state; the server has the last word (its table of states). */
export type Word = 'acknowledge' | 'snooze' | 'expect' | 'resolve' | 'reopen'
type AlertState = Alert['state']

const CAN: Record<AlertState, readonly Word[]> = {
  open: ['acknowledge', 'snooze', 'expect', 'resolve'],
  acknowledged: ['snooze', 'expect', 'resolve', 'reopen'],
  snoozed: ['acknowledge', 'snooze', 'expect', 'resolve', 'reopen'],
  expected: ['resolve', 'reopen'],
  resolved: ['reopen'],
}

export function wordsFor(alert: Alert): readonly Word[] {
  // Only a change of a series can be meant; a failed job or a lost agent has no new level.
  return CAN[alert.state].filter((one) => one !== 'expect' || alert.kind === 'finding')
}

export const WORDS: Record<Word, { button: string; title: string; says: string; done: string }> = {
  acknowledge: {
    button: 'Acknowledge',
    title: 'Acknowledge this alert',
    says: 'Someone is working on it: no more notifications unless it changes.',
    done: 'The alert is acknowledged',
  },
  snooze: {
    button: 'Snooze',
    title: 'Snooze this alert',
    says: 'No notifications for a while; then it is open again.',
    done: 'The alert is snoozed',
  },
  expect: {
    button: 'Expected',
    title: 'Were these changes intended?',
    says: 'Their series restart from the new level. The new level stays, even if the alert is reopened.',
    done: 'The changes are expected',
  },
  resolve: {
    button: 'Resolve',
    title: 'Resolve this alert',
    says: 'It ends here; it reopens if the problem returns.',
    done: 'The alert is resolved',
  },
  reopen: {
    button: 'Reopen',
    title: 'Open this alert again',
    says: 'Undoes the last action: it is open as before.',
    done: 'The alert is open again',
  },
}

const HAPPENINGS: Record<string, string> = {
  occur: 'it happened',
  recover: 'recovered by itself',
  wake: 'woke up',
  acknowledge: 'acknowledged',
  snooze: 'snoozed',
  expect: 'marked as expected',
  resolve: 'resolved',
  reopen: 'reopened',
}

export function happeningWords(happening: string): string {
  return HAPPENINGS[happening] ?? happening
}

const KINDS: Record<string, string> = {
  finding: 'a series changed',
  threshold: 'a limit was exceeded',
  failed: 'jobs failed',
  silent: 'no results',
  'agent-lost': 'agents lost',
}

export function kindWords(kind: string): string {
  return KINDS[kind] ?? kind
}
