import { cronWords } from '@/pages/schedules/times'

/** When a schedule is due: in words where that is easy, and as it is written. */
export function Times({ schedule }: { schedule: Record<string, unknown> }) {
  const cron = String(schedule.cron ?? '')
  const zone = String(schedule.timezone ?? 'UTC')
  const words = cronWords(cron)
  return (
    <span>
      {words ?? <code>{cron}</code>}{' '}
      <span className="quiet">
        {zone}
        {words && (
          <>
            {' '}
            · <code>{cron}</code>
          </>
        )}
      </span>
    </span>
  )
}
