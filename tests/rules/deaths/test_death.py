"""The cause of a runner's end, and the texts that report it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.deaths.cause import (
    GRACE_TOO_SHORT,
    HAPPENED,
    JOB_REASONS,
    NO_JOB,
    Cause,
    OwnReason,
    advice_for,
    fitting_advice,
    not_yours,
)
from ghapp.deaths.classify import DISRUPTIONS, OUTSIDE, POD_REASONS, UNSEEN, classify, signal_of
from ghapp.deaths.death import (
    DeadJob,
    Death,
    blames_the_platform,
    died,
    vanished,
    with_context,
    with_delivered_job,
    with_more_lines,
)
from ghapp.deaths.runner_log import RunnerError, RunnerLog, read_runner_log
from ghapp.deaths.texts import sentences
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.report.documents import death_document
from ghapp.workflow_jobs.job import Job
from tests.rules.builders import LONG_AGO, NOW

FINISHED_AT = NOW - 5.0
RUN = "2026-11-20 12:00:00Z: Running job: build"
DONE = "2026-11-20 12:01:00Z: Job build completed with result: Succeeded"
FAILED = "2026-11-20 12:01:00Z: Job build completed with result: Failed"
CANCELED = "2026-11-20 12:01:00Z: Job build completed with result: Canceled"
ABANDONED = "2026-11-20 12:01:00Z: Job build completed with result: Abandoned"
LISTENING = "2026-11-20 12:00:00Z: Listening for Jobs"
EXIT_0 = "Runner listener exit with 0 return code, stop the service, no retry needed."
EXIT_1 = "Runner listener exit with terminated error, stop the service, no retry needed."
EXIT_5 = "Runner listener exit with Session Conflict error, stop the service, no retry needed."
EXIT_X = "Exiting with unknown error code: 139"
HELD = "A session for this runner already exists."
DELETED = "Failed to create a session. The runner registration has been deleted from the server, please re-configure."
NO_LONGER = "The runner no longer exists on the server. Cleaning up local configuration."
NOT_FOUND = (
    "2026-11-20 12:00:00Z: Runner connect error: Registration 1f3a-99 was not found. Retrying until reconnected."
)
DEPRECATED = "An error occured: Runner version v2.330.0 is deprecated and cannot receive messages."
RECONNECTED = "2026-11-20 12:00:00Z: Runner reconnected."
KUBERNETES_OWN = {
    *("Evicted", "EvictionByEvictionAPI", "TerminationByKubelet", "DeletionByTaintManager", "DeadlineExceeded"),
    *("Preempting", "PreemptionByScheduler", "NodeLost", "NodeShutdown", "DeletionByPodGC"),
}
"""Reasons by which a pod shows that it was ended from outside, repeated here on purpose."""

END_OF_SENTENCE = re.compile(r"[.!?](?=\s|$)")


def ended(exit_code=1, reason="Error", **changes):
    return Ended(**{"exit_code": exit_code, "reason": reason, "finished_at": FINISHED_AT, **changes})


def pod(end=None, last=None, **changes):
    """A pod not ended from outside; its runner ended as given, or has not ended."""
    runner = Container("runner", ended=end, last_ended=last) if end or last else None
    worst = Pod("runners", "linux-x7k2p", "uid-1", "41", NOW - 3600, node="node-7", runner=runner)
    return worst._replace(**changes)


def death(**changes):
    """A death that the platform caused: killed by the host during its job, and the job failed."""
    job = DeadJob(9, "acme/app", "build", "abc", "failure", "https://github.com/acme/app/runs/9")
    worst = died(pod(ended(137, "OOMKilled")), [RUN], NOW)._replace(job=job)
    return worst._replace(**changes)


class TestClassify:
    @pytest.mark.parametrize(
        ("end", "cause", "signal"),
        [
            (ended(137, "OOMKilled"), Cause.HOST_OOM, 9),
            (ended(1, "OOMKilled"), Cause.HOST_OOM, None),
            (ended(137), Cause.GUEST_OOM_OR_KILL, 9),
            (ended(0, signal=9), Cause.GUEST_OOM_OR_KILL, 9),
            (ended(143), Cause.TERMINATED, 15),
            (ended(1, signal=15), Cause.TERMINATED, 15),
            (ended(9), Cause.EXTERNAL_TEARDOWN, None),
            (ended(9, "Completed"), Cause.CRASH, None),
            (ended(9, signal=11), Cause.CRASH, 11),
            (ended(9, signal=9), Cause.GUEST_OOM_OR_KILL, 9),
            (ended(7), Cause.VERSION_DEPRECATED, None),
            (ended(139), Cause.CRASH, 11),
            (ended(130), Cause.CRASH, 2),
            (ended(1), Cause.CRASH, None),
            (ended(2), Cause.CRASH, None),
            (ended(255), Cause.CRASH, None),
            (ended(255, "Unknown"), Cause.VANISHED, None),
            (ended(137, "ContainerStatusUnknown"), Cause.VANISHED, None),
            (ended(128, "StartError"), Cause.CRASH, None),
        ],
        ids=lambda value: f"{value.exit_code}-{value.reason}-{value.signal}" if isinstance(value, Ended) else None,
    )
    def test_an_exit_has_a_cause_and_a_signal(self, end, cause, signal):
        found = classify(pod(end))
        assert (found.cause, found.signal) == (cause, signal)

    @pytest.mark.parametrize(("code", "signal"), [(128, None), (129, 1), (192, 64), (193, None), (0, None), (-1, None)])
    def test_a_code_above_128_is_a_signal(self, code, signal):
        assert signal_of(Ended(code)) == signal

    def test_a_reported_signal_takes_precedence_over_the_exit_code(self):
        assert signal_of(Ended(137, signal=15)) == 15

    def test_a_signal_of_zero_counts_as_no_signal(self):
        assert classify(pod(ended(9, signal=None))).signal is None
        assert signal_of(Ended(143, signal=0)) == 15

    def test_a_restarted_container_is_classified_by_its_last_end(self):
        again = pod()._replace(runner=Container("runner", running_since=NOW, last_ended=ended(137, "OOMKilled")))
        assert classify(again).cause is Cause.HOST_OOM

    def test_the_current_end_takes_precedence_over_the_last_one(self):
        assert classify(pod(ended(143), ended(137, "OOMKilled"))).cause is Cause.TERMINATED

    def test_a_pod_without_evidence_has_an_unknown_cause(self):
        found = classify(pod(), [DONE, EXIT_0])
        assert (found.cause, found.reason, found.exit_code, found.signal) == (Cause.UNKNOWN, "EndNotSeen", None, None)

    def test_a_pod_never_admitted_has_its_own_reason(self):
        assert classify(pod(reason="OutOfmemory"))[:2] == (Cause.UNKNOWN, "OutOfmemory")

    def test_an_end_of_unknown_container_status_has_no_exit_code(self):
        found = classify(pod(ended(137, "ContainerStatusUnknown")))
        assert (found.exit_code, found.reason) == (None, "ContainerStatusUnknown")


class TestFromOutside:
    @pytest.mark.parametrize("end", [None, ended(137), ended(1), ended(143), ended(9), ended(0, "Completed")])
    @pytest.mark.parametrize("reason", sorted(POD_REASONS - {"NodeLost", "DeletionByPodGC"}))
    def test_a_pods_own_reason_ended_its_runner(self, reason, end):
        found = classify(pod(end, reason=reason, message="The node was low on resource: memory."))
        assert (found.cause, found.reason) == (Cause.TERMINATED, reason)

    @pytest.mark.parametrize("reason", sorted(DISRUPTIONS | {"PreemptionByScheduler"}))
    def test_a_disruption_ended_its_runner_and_has_its_own_advice(self, reason):
        found = classify(pod(ended(137), disruption=reason))
        assert (found.cause, found.reason) == (Cause.TERMINATED, reason)
        assert found.advice == advice_for(Cause.TERMINATED, reason) != advice_for(Cause.TERMINATED)

    @pytest.mark.parametrize(
        ("log", "cause"),
        [
            ([RUN, CANCELED, EXIT_0], Cause.TERMINATED),
            ([RUN, EXIT_0], Cause.TERMINATED),
            ([RUN, DONE, EXIT_0], Cause.CLEAN_EXIT),
            ([NO_LONGER], Cause.DELETED_REGISTRATION),
        ],
    )
    def test_a_job_cut_off_by_a_disruption_is_no_clean_exit(self, log, cause):
        assert classify(pod(ended(0, "Completed"), disruption="EvictionByEvictionAPI"), log).cause is cause

    def test_a_pods_own_reason_takes_precedence_over_its_disruption(self):
        assert classify(pod(ended(1), reason="Evicted", disruption="TerminationByKubelet")).reason == "Evicted"

    @pytest.mark.parametrize("reason", ["NodeLost", "DeletionByPodGC"])
    def test_a_runner_on_a_lost_node_vanished_unless_its_end_was_seen(self, reason):
        assert classify(pod(disruption=reason))[:2] == (Cause.VANISHED, reason)
        assert classify(pod(reason=reason))[:2] == (Cause.VANISHED, reason)
        assert classify(pod(ended(255, "Unknown"), reason=reason)).reason == reason
        assert classify(pod(ended(137, "OOMKilled"), reason=reason)).cause is Cause.HOST_OOM
        assert classify(pod(ended(1), reason=reason))[:2] == (Cause.CRASH, "Error")

    def test_an_oom_kill_by_the_kernel_takes_precedence_over_an_eviction(self):
        assert classify(pod(ended(137, "OOMKilled"), reason="Evicted")).cause is Cause.HOST_OOM

    def test_other_reasons_of_a_pod_do_not_explain_an_end(self):
        assert classify(pod(ended(1), reason="Unschedulable")).cause is Cause.CRASH

    def test_an_eviction_for_the_pods_own_limit_is_what_the_job_used_up(self):
        message = 'Usage of EmptyDir volume "work" exceeds the limit "20Gi". '
        for end in (pod(ended(137), reason="Evicted", message=message), pod(reason="Evicted", message=message)):
            found = classify(end)
            assert (found.cause, found.reason) == (Cause.TERMINATED, OwnReason.STORAGE_LIMIT)
            assert "run again unchanged" in not_yours(found.cause, found.reason)

    @pytest.mark.parametrize(
        ("message", "setting"),
        [
            ("The node was low on resource: memory. Container runner was using 5Gi", "requests.memory"),
            ("The node was low on resource: ephemeral-storage.", "ephemeral-storage"),
            ("Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.", "ephemeral-storage"),
            ("The node was low on resource: pids.", "podPidsLimit"),
            ("The node had condition: [DiskPressure]. ", "ephemeral-storage"),
            ("The node had condition: [MemoryPressure]. ", "requests.memory"),
            ('Usage of EmptyDir volume "memory-cache" exceeds the limit "20Gi". ', "sizeLimit"),
            ('Container memory exceeded its local ephemeral storage limit "10Gi". ', "ephemeral-storage"),
            ("A controller's own words about memory", "PriorityClass"),
            ("", "PriorityClass"),
        ],
    )
    def test_the_advice_of_an_eviction_names_the_resource_the_node_was_short_of(self, message, setting):
        assert setting in classify(pod(ended(137), reason="Evicted", message=message)).advice


class TestDeletion:
    @pytest.mark.parametrize(
        ("asked", "cause"),
        [(-1.0, Cause.TERMINATED), (0.0, Cause.GUEST_OOM_OR_KILL), (1.0, Cause.GUEST_OOM_OR_KILL)],
        ids=["before the end", "at the end", "after the end"],
    )
    def test_a_kill_after_a_deletion_means_that_the_grace_period_was_too_short(self, asked, cause):
        found = classify(pod(ended(137), deleting_since=FINISHED_AT + asked))
        assert found.cause is cause
        assert found.advice == (GRACE_TOO_SHORT if cause is Cause.TERMINATED else advice_for(cause))

    def test_another_end_after_a_deletion_has_the_usual_advice(self):
        assert classify(pod(ended(1), deleting_since=FINISHED_AT - 1)).advice == advice_for(Cause.TERMINATED)

    @pytest.mark.parametrize("finished_at", [None, 0.0], ids=["no time", "1970"])
    def test_an_end_without_a_time_is_not_explained_by_a_deletion(self, finished_at):
        found = classify(pod(ended(137, finished_at=finished_at), deleting_since=LONG_AGO))
        assert found.cause is Cause.GUEST_OOM_OR_KILL

    @pytest.mark.parametrize(
        ("code", "log", "cause"),
        [
            (1, [], Cause.TERMINATED),
            (0, [], Cause.TERMINATED),
            (0, [RUN], Cause.TERMINATED),
            (0, [RUN, CANCELED, EXIT_0], Cause.TERMINATED),
            (0, [RUN, DONE, EXIT_0], Cause.CLEAN_EXIT),
            (0, [LISTENING, EXIT_0], Cause.CLEAN_EXIT),
            (9, [], Cause.EXTERNAL_TEARDOWN),
            (1, [NO_LONGER], Cause.DELETED_REGISTRATION),
        ],
    )
    def test_an_end_after_a_deletion_is_caused_by_it_unless_the_runner_had_finished(self, code, log, cause):
        reason = "Error" if code else "Completed"
        assert classify(pod(ended(code, reason), deleting_since=FINISHED_AT - 1), log).cause is cause


class TestRunnerLog:
    @pytest.mark.parametrize(
        ("log", "cause", "reason"),
        [
            ([LISTENING, RUN, DONE, EXIT_0], Cause.CLEAN_EXIT, "Completed"),
            ([RUN, FAILED], Cause.CLEAN_EXIT, "Completed"),
            ([RUN, CANCELED, EXIT_0], Cause.CLEAN_EXIT, "Completed"),
            ([LISTENING, EXIT_0], Cause.CLEAN_EXIT, "Completed"),
            ([], Cause.CLEAN_EXIT, "CompletedSilently"),
            (["Waiting for docker to be ready."], Cause.CLEAN_EXIT, "CompletedSilently"),
            ([LISTENING], Cause.CLEAN_EXIT, "CompletedSilently"),
            ([RUN], Cause.CRASH, "JobUnfinished"),
            ([RUN, EXIT_0], Cause.CRASH, "JobUnfinished"),
            ([EXIT_1], Cause.CRASH, "ListenerTerminated"),
            ([RUN, DONE, EXIT_1], Cause.CRASH, "ListenerTerminated"),
            ([HELD, EXIT_5], Cause.CRASH, "SessionConflict"),
            ([EXIT_5], Cause.CRASH, "SessionConflict"),
            ([HELD, EXIT_1], Cause.CRASH, "SessionConflict"),
            ([HELD, EXIT_0], Cause.CRASH, "SessionConflict"),
            ([EXIT_X], Cause.CRASH, "ListenerFailed"),
            ([EXIT_1, LISTENING, RUN, DONE, EXIT_0], Cause.CLEAN_EXIT, "Completed"),
            ([HELD, LISTENING, RUN, DONE], Cause.CLEAN_EXIT, "Completed"),
            ([DELETED, EXIT_1], Cause.DELETED_REGISTRATION, "Completed"),
            ([NO_LONGER, EXIT_0], Cause.DELETED_REGISTRATION, "Completed"),
            ([RUN, NO_LONGER, CANCELED, EXIT_0], Cause.DELETED_REGISTRATION, "Completed"),
            ([RUN, NO_LONGER, ABANDONED, EXIT_0], Cause.DELETED_REGISTRATION, "Completed"),
            ([RUN, NO_LONGER, DONE, EXIT_0], Cause.CLEAN_EXIT, "Completed"),
            ([RUN, DONE, NO_LONGER, EXIT_0], Cause.DELETED_REGISTRATION, "Completed"),
            ([NOT_FOUND], Cause.DELETED_REGISTRATION, "Completed"),
            ([NOT_FOUND, RECONNECTED, RUN, DONE], Cause.CLEAN_EXIT, "Completed"),
            ([NOT_FOUND, RUN], Cause.CRASH, "JobUnfinished"),
            ([DEPRECATED, EXIT_1], Cause.VERSION_DEPRECATED, "Completed"),
        ],
        ids=lambda value: " | ".join(each[:32] for each in value) or "nothing" if isinstance(value, list) else None,
    )
    def test_an_exit_0_is_classified_by_the_runners_log(self, log, cause, reason):
        found = classify(pod(ended(0, "Completed")), log)
        assert (found.cause, found.reason) == (cause, reason)

    @pytest.mark.parametrize(
        ("code", "cause"),
        [(1, Cause.CRASH), (9, Cause.EXTERNAL_TEARDOWN), (137, Cause.GUEST_OOM_OR_KILL), (143, Cause.TERMINATED)],
    )
    def test_a_clean_log_does_not_make_another_exit_code_clean(self, code, cause):
        # With RUNNER_MANUALLY_TRAP_SIG the listener returns 0, and the script is killed by its signal.
        assert classify(pod(ended(code)), [RUN, DONE, EXIT_0]).cause is cause

    @pytest.mark.parametrize("code", [0, 1, 2, 137, 143])
    @pytest.mark.parametrize("line", [DELETED, NO_LONGER, NOT_FOUND])
    def test_a_deleted_registration_is_recognized_by_its_log_line_at_any_exit_code(self, line, code):
        assert classify(pod(ended(code)), [line]).cause is Cause.DELETED_REGISTRATION

    def test_a_deprecated_version_is_recognized_by_its_log_line_or_its_exit_code(self):
        assert classify(pod(ended(1)), [DEPRECATED]).cause is Cause.VERSION_DEPRECATED
        assert classify(pod(ended(7)), [DELETED]).cause is Cause.VERSION_DEPRECATED

    def test_the_advice_for_a_missing_log_names_the_setting_that_enables_it(self):
        assert "ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT" in classify(pod(ended(0, "Completed"))).advice

    def test_a_conflict_has_its_own_advice(self):
        assert "restartPolicy" in classify(pod(ended(1)), [EXIT_5]).advice

    def test_an_oom_kill_in_a_step_is_no_clean_exit_unless_the_job_succeeded(self):
        killed = pod(ended(0, "OOMKilled"))
        assert classify(killed, [RUN, FAILED, EXIT_0]).cause is Cause.HOST_OOM
        assert classify(killed, [RUN, DONE, EXIT_0]).cause is Cause.CLEAN_EXIT
        assert classify(pod(ended(137, "OOMKilled")), [RUN, DONE]).cause is Cause.HOST_OOM

    @pytest.mark.parametrize(
        "frame",
        [
            "{}",
            "2026-11-20 12:00:00Z: {}",
            "[RUNNER 2026-11-20 12:00:00Z ERR  Terminal] WRITE ERROR: {}",
            "2026-11-20T12:00:00.123456789Z {}",
            "An error occurred: {}",
        ],
    )
    @pytest.mark.parametrize(("line", "trouble"), [(NO_LONGER, RunnerError.DELETED), (HELD, RunnerError.CONFLICT)])
    def test_a_line_is_recognized_in_every_log_format(self, frame, line, trouble):
        assert read_runner_log([frame.format(line)]).trouble is trouble

    @pytest.mark.parametrize(
        "line",
        [
            f"2026-11-20 12:00:00Z: Running job: {NO_LONGER}",
            f"2026-11-20 12:00:00Z: Job {DELETED} completed with result: Failed",
            f"[WORKER 2026-11-20 12:00:00Z INFO Script] {NO_LONGER}",
            f'  "script": "echo {DEPRECATED}"',
            f"+ echo '{DELETED}'",
        ],
        ids=["a job's name", "a job's name at its end", "a worker's line", "a script in a trace", "a shell's trace"],
    )
    def test_a_line_of_a_job_is_not_taken_for_one_of_the_runner(self, line):
        assert read_runner_log([line]).trouble is RunnerError.NONE

    @pytest.mark.parametrize(
        ("log", "words"),
        [
            ([RUN, RECONNECTED], RunnerLog(job="Running")),
            ([RUN, LISTENING], RunnerLog()),
            ([RUN, DONE, LISTENING], RunnerLog(job="Succeeded")),
            ([RUN, DONE, RECONNECTED], RunnerLog(job="Succeeded")),
            ([NOT_FOUND, RECONNECTED], RunnerLog()),
            ([HELD, EXIT_5, LISTENING], RunnerLog()),
        ],
        ids=[
            "reconnected",
            "started again",
            "after a job",
            "reconnected after a job",
            "reconnected after a 404",
            "a new session",
        ],
    )
    def test_a_listener_that_listens_again_has_no_error(self, log, words):
        assert read_runner_log(log) == words

    def test_a_jobs_name_cannot_forge_its_result(self):
        words = read_runner_log(
            ["2026-11-20 12:00:00Z: Job x completed with result: Succeeded completed with result: Canceled"]
        )
        assert words.job == "Canceled"

    @given(st.lists(st.sampled_from([RUN, DONE, FAILED, CANCELED, LISTENING, EXIT_0, EXIT_1, NO_LONGER, HELD, "x"])))
    def test_a_new_session_clears_all_earlier_errors(self, log):
        assert read_runner_log([*log, RUN, DONE, EXIT_0]) == read_runner_log([RUN, DONE, EXIT_0])


@given(
    st.builds(
        Ended,
        exit_code=st.integers(-1, 256),
        signal=st.none() | st.integers(0, 64),
        reason=st.sampled_from(["", "Error", "Completed", "OOMKilled", "Unknown", "ContainerStatusUnknown"]),
        finished_at=st.none() | st.floats(0, NOW),
    )
    | st.none(),
    st.sampled_from(["", "Evicted", "NodeLost", "Terminated", "Whatever"]),
    st.sampled_from(["", "PreemptionByScheduler", "DisruptionTarget"]),
    st.none() | st.floats(0, NOW),
    st.lists(st.text() | st.sampled_from([RUN, DONE, EXIT_0, EXIT_1, NO_LONGER, DEPRECATED, NOT_FOUND])),
)
def test_every_end_has_a_cause_a_reason_advice_and_three_sentences(end, reason, disruption, deleting, log):
    seen = pod(end, reason=reason, disruption=disruption, deleting_since=deleting)
    result = died(seen, log, NOW)
    assert result.cause in Cause
    assert result.advice
    is_unseen = end is None or (end.reason, end.exit_code) in UNSEEN
    assert (result.exit_code is None) is is_unseen
    assert (result.cause in {Cause.UNKNOWN, Cause.VANISHED}) <= is_unseen
    assert all(each.endswith(".") for each in sentences(result))
    assert vanished(seen, NOW).cause is Cause.VANISHED


class TestTexts:
    @pytest.mark.parametrize("cause", list(Cause))
    def test_every_cause_has_texts(self, cause):
        assert HAPPENED[cause]
        assert not_yours(cause, "").endswith(".")
        assert advice_for(cause).endswith(".")

    @pytest.mark.parametrize("reason", [*sorted(OUTSIDE - {"Evicted"}), str(OwnReason.SILENT), str(OwnReason.DELETED)])
    def test_every_reason_from_outside_has_its_own_advice(self, reason):
        assert advice_for(Cause.TERMINATED, reason) != advice_for(Cause.TERMINATED)

    @pytest.mark.parametrize(
        ("cause", "setting"),
        [
            (Cause.HOST_OOM, "resources.limits.memory"),
            (Cause.GUEST_OOM_OR_KILL, "RuntimeClass"),
            (Cause.TERMINATED, "terminationGracePeriodSeconds"),
            (Cause.TERMINATED, "preStop"),
            (Cause.EXTERNAL_TEARDOWN, "overhead.podFixed.memory"),
            (Cause.CRASH, "ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT"),
            (Cause.VERSION_DEPRECATED, "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"),
            (Cause.VERSION_DEPRECATED, "`Outdated`"),
            (Cause.DELETED_REGISTRATION, "EphemeralRunner"),
        ],
    )
    def test_an_advice_names_the_setting(self, cause, setting):
        assert setting in advice_for(cause)

    def test_the_text_for_developers_admits_that_the_job_may_be_a_cause(self):
        assert "the job used more than its machine has" in not_yours(Cause.GUEST_OOM_OR_KILL, "")
        assert "unless a step" in not_yours(Cause.CRASH, "")
        assert "unknown whether" in not_yours(Cause.UNKNOWN, "")
        assert "It was not your code" in not_yours(Cause.TERMINATED, "")

    def test_the_first_sentence_names_the_runner_the_node_and_the_end(self):
        happened, contributed, change = sentences(death())
        assert happened == (
            "The runner was killed because its container reached its memory limit: "
            "linux-x7k2p on node node-7 (OOMKilled, exit code 137, signal 9)."
        )
        assert contributed == not_yours(Cause.HOST_OOM, "")
        assert change == "For the platform team: " + advice_for(Cause.HOST_OOM)

    @pytest.mark.parametrize("cause", list(Cause))
    @pytest.mark.parametrize(
        ("reason", "message"),
        [
            ("", ""),
            *((each, "") for each in sorted({*OUTSIDE, *map(str, OwnReason), "SessionConflict", "StartError"})),
            *(
                ("Evicted", f"The node was low on resource: {each}.")
                for each in ("memory", "ephemeral-storage", "pids")
            ),
        ],
    )
    def test_each_of_the_three_texts_is_one_sentence(self, cause, reason, message):
        result = sentences(death(cause=cause, reason=reason, advice=advice_for(cause, reason, message)))
        assert [len(END_OF_SENTENCE.findall(each)) for each in result] == [1, 1, 1]

    @pytest.mark.parametrize("log", [[], [EXIT_5], [RUN]])
    @pytest.mark.parametrize("code", [0, 1, 7, 9, 137, 143])
    def test_each_of_the_three_texts_is_one_sentence_after_a_short_grace_period(self, code, log):
        result = died(pod(ended(code), deleting_since=FINISHED_AT - 1), log, NOW)
        assert [len(END_OF_SENTENCE.findall(each)) for each in sentences(result)] == [1, 1, 1]

    def test_unknown_facts_are_left_out_of_the_sentence(self):
        bare = death(node="", reason="", exit_code=None, signal=None, cause=Cause.UNKNOWN)
        assert sentences(bare)[0] == "The runner ended, and its end left no evidence: linux-x7k2p."


class TestRecord:
    def test_a_death_is_dated_by_the_end_of_its_container(self):
        assert died(pod(ended(1)), [], NOW).at == FINISHED_AT

    @pytest.mark.parametrize("finished_at", [None, 0.0], ids=["no time", "1970"])
    def test_a_death_without_a_time_of_its_end_is_dated_by_its_observation(self, finished_at):
        assert died(pod(ended(1, finished_at=finished_at)), [], NOW).at == NOW

    def test_a_death_has_the_names_of_its_pod(self):
        result = died(pod(ended(1)), ["last"], NOW)
        assert (result.runner_name, result.pod, result.namespace, result.pod_uid, result.node, result.runner_log) == (
            "linux-x7k2p",
            "linux-x7k2p",
            "runners",
            "uid-1",
            "node-7",
            ("last",),
        )

    @pytest.mark.parametrize("many", [200, 201, 500])
    def test_the_last_200_lines_are_kept(self, many):
        lines = [str(each) for each in range(many)]
        assert died(pod(ended(1)), lines, NOW).runner_log == tuple(lines[-200:])

    @pytest.mark.parametrize(("long", "kept"), [(1_000, "x" * 1_000), (1_001, "x" * 999 + "…")])
    def test_a_line_is_kept_up_to_a_thousand_characters(self, long, kept):
        result = with_context(died(pod(ended(1)), ["x" * long], NOW), None, ["x" * long])
        assert (result.runner_log, result.host_log) == ((kept,), (kept,))

    def test_masked_secrets_stay_masked(self):
        assert died(pod(ended(1)), ["token ***"], NOW).runner_log == ("token ***",)

    @pytest.mark.parametrize(("many", "first"), [(200, 0), (201, 0), (202, 1), (600, 200)])
    def test_the_middle_lines_of_the_hosts_log_are_kept(self, many, first):
        result = with_context(death(), None, [str(each) for each in range(many)])
        assert result.host_log == tuple(str(each) for each in range(first, first + 200))
        assert result.job is None

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({}, "PodGone"),
            ({"deleting_since": NOW}, "Deleted"),
            ({"disruption": "PreemptionByScheduler", "deleting_since": NOW}, "PreemptionByScheduler"),
            ({"reason": "NodeLost", "deleting_since": NOW}, "NodeLost"),
            ({"disruption": "DeletionByPodGC"}, "DeletionByPodGC"),
            ({"reason": "Whatever"}, "PodGone"),
        ],
    )
    def test_a_vanished_pod_has_its_last_known_reason(self, changes, reason):
        result = vanished(pod(**changes), NOW)
        assert (result.cause, result.reason, result.at) == (Cause.VANISHED, reason, NOW)
        assert (result.exit_code, result.signal) == (None, None)
        assert (result.advice == advice_for(Cause.VANISHED)) is (reason == "PodGone")

    def test_an_unknown_disruption_is_reported_by_its_own_name(self):
        assert vanished(pod(disruption="SolarFlare", deleting_since=NOW), NOW).reason == "SolarFlare"
        assert classify(pod(ended(1), disruption="SolarFlare"))[:2] == (Cause.TERMINATED, "SolarFlare")

    def test_the_document_is_that_of_the_contract(self):
        result = with_context(death(at=NOW + 0.25), death().job, ["oom-kill"])
        assert death_document(result) == {
            "runner_name": "linux-x7k2p",
            "pod": "linux-x7k2p",
            "node": "node-7",
            "at": "2026-09-21T14:13:20.250Z",
            "exit_code": 137,
            "signal": 9,
            "reason": "OOMKilled",
            "cause": "host-oom",
            "advice": result.advice,
            "pool": "",
            "job": {
                "id": 9,
                "repository": "acme/app",
                "name": "build",
                "head_sha": "abc",
                "conclusion": "failure",
                "html_url": "https://github.com/acme/app/runs/9",
            },
            "runner_log": [RUN],
            "host_log": ["oom-kill"],
            "image": "",
            "memory_limit": "",
            "runner_id": None,
        }

    def test_a_document_without_a_job_or_with_a_running_job_has_nulls(self):
        assert death_document(death(job=None))["job"] is None
        assert death_document(death(job=DeadJob(9, "acme/app")))["job"]["conclusion"] is None


class TestMoreLines:
    def test_later_lines_may_change_the_cause(self):
        silent = died(pod(ended(0, "Completed")), [], NOW)
        result = with_more_lines(silent, [NO_LONGER, EXIT_0])
        assert (result.cause, result.reason, result.runner_log) == (
            Cause.DELETED_REGISTRATION,
            "Completed",
            (NO_LONGER, EXIT_0),
        )
        assert result.advice == advice_for(Cause.DELETED_REGISTRATION)
        assert with_more_lines(silent, [RUN, DONE])[5:9] == (
            None,
            "Completed",
            Cause.CLEAN_EXIT,
            advice_for(Cause.CLEAN_EXIT),
        )

    @pytest.mark.parametrize(
        "seen",
        [
            pod(ended(137, "OOMKilled")),
            pod(ended(143)),
            pod(ended(1), reason="Evicted"),
            pod(),
            pod(disruption="DeletionByPodGC"),
        ],
        ids=["memory", "signal", "eviction", "unseen", "node"],
    )
    def test_later_lines_do_not_change_a_cause_reported_by_the_cluster(self, seen):
        before = died(seen, [], NOW)
        assert with_more_lines(before, [RUN, DONE, EXIT_0]) == before._replace(runner_log=(RUN, DONE, EXIT_0))

    @pytest.mark.parametrize("reason", [OwnReason.STEP_LEFT_OPEN, OwnReason.REGISTRATION_LOST])
    def test_later_lines_of_a_clean_exit_do_not_change_a_cause_shown_by_the_job(self, reason):
        cause = Cause.LOST_COMMUNICATION
        left_behind = died(pod(ended(0, "Completed")), [], NOW)._replace(cause=cause, reason=reason)
        assert with_more_lines(left_behind, [RUN, DONE, EXIT_0]) == left_behind._replace(runner_log=(RUN, DONE, EXIT_0))
        assert with_more_lines(left_behind, [NO_LONGER, EXIT_0]).cause is Cause.DELETED_REGISTRATION

    @pytest.mark.parametrize(
        ("end", "log", "reason"),
        [
            (ended(1), [EXIT_5], "Error"),
            (ended(0, "Completed"), [EXIT_1], "CompletedSilently"),
            (ended(128, "StartError"), [], "StartError"),
        ],
    )
    def test_later_lines_replace_a_reason_of_ghapp_and_keep_one_of_the_kubelet(self, end, log, reason):
        assert with_more_lines(died(pod(end), log, NOW), ["nothing to the point"]).reason == reason

    def test_an_empty_log_removes_no_lines(self):
        before = died(pod(ended(1)), [EXIT_5], NOW)
        assert with_more_lines(before, []) == before

    @given(
        st.sampled_from([0, 1, 2, 7, 9, 130, 137, 139]),
        st.lists(st.sampled_from([RUN, DONE, FAILED, CANCELED, EXIT_0, EXIT_1, EXIT_5, NO_LONGER, DEPRECATED])),
    )
    def test_later_lines_give_the_same_result_as_lines_read_at_once(self, code, log):
        seen = pod(ended(code, "Error" if code else "Completed"))
        assert with_more_lines(died(seen, [], NOW), log) == died(seen, log, NOW)
        assert with_more_lines(died(seen, log, NOW), log) == died(seen, log, NOW)


class TestBlame:
    @pytest.mark.parametrize("cause", [each for each in Cause if each is not Cause.CLEAN_EXIT])
    def test_a_job_that_failed_with_its_runners_death_gets_a_post_mortem(self, cause):
        assert blames_the_platform(death(cause=cause))

    def test_a_clean_exit_gets_no_post_mortem(self):
        assert not blames_the_platform(death(cause=Cause.CLEAN_EXIT))

    def test_an_idle_runner_gets_no_post_mortem(self):
        assert not blames_the_platform(death(job=None))

    @pytest.mark.parametrize(
        ("line", "blamed"), [(DONE, False), (FAILED, False), (CANCELED, True), (ABANDONED, True), (LISTENING, True)]
    )
    def test_a_runner_that_logged_its_jobs_result_gets_no_post_mortem(self, line, blamed):
        assert blames_the_platform(death(runner_log=(RUN, line))) is blamed

    @pytest.mark.parametrize(
        ("conclusion", "blamed"),
        [
            ("failure", True),
            ("timed_out", True),
            ("", False),
            ("success", False),
            ("neutral", False),
            ("skipped", False),
            ("action_required", False),
            ("cancelled", False),
        ],
    )
    def test_a_job_that_did_not_fail_gets_no_post_mortem(self, conclusion, blamed):
        assert blames_the_platform(death(job=DeadJob(9, "acme/app", conclusion=conclusion))) is blamed

    @pytest.mark.parametrize("reason", sorted((OUTSIDE | KUBERNETES_OWN) - {"DeadlineExceeded"}))
    def test_a_job_cancelled_by_the_cluster_gets_a_post_mortem(self, reason):
        cancelled = DeadJob(9, "acme/app", conclusion="cancelled")
        assert blames_the_platform(death(cause=Cause.TERMINATED, reason=reason, job=cancelled))
        assert not blames_the_platform(death(cause=Cause.TERMINATED, reason="Error", job=cancelled))

    def test_a_cancelled_job_whose_lost_runner_github_confirms_gets_a_post_mortem(self):
        cancelled = death(cause=Cause.TERMINATED, reason="Error", job=DeadJob(9, "acme/app", conclusion="cancelled"))
        assert blames_the_platform(cancelled, confirmed_by_github=True)
        unfinished = death(job=DeadJob(9, "acme/app"))
        assert not blames_the_platform(unfinished, confirmed_by_github=True)


def test_a_death_is_stored_by_position():
    assert Death._fields[:9] == (
        "runner_name",
        "pod",
        "node",
        "at",
        "exit_code",
        "signal",
        "reason",
        "cause",
        "advice",
    )
    assert read_runner_log([]) == RunnerLog()


def test_the_death_of_an_idle_runner_does_not_speak_of_a_job_that_it_had():
    for cause in Cause:
        for reason in ("", *sorted(set(OwnReason) - JOB_REASONS), *sorted(OUTSIDE), "SessionConflict"):
            idle = Death("a", "a", "node-1", NOW, 143, 15, reason, cause, advice_for(cause, reason))
            assert not re.search(r"\b(the|its|longest) job\b", idle.advice_now, re.IGNORECASE), idle
            with_job = idle._replace(job=DeadJob(1))
            assert with_job.advice_now == with_job.advice


def test_what_happened_to_an_idle_runner_stays_in_its_advice():
    advice = advice_for(Cause.TERMINATED, "EvictionByEvictionAPI")
    assert fitting_advice(advice, has_job=False) == (
        "Its node was drained, while no job is known to have run: if that was meant, nothing needs to change."
    )
    assert fitting_advice(advice_for(Cause.HOST_OOM), has_job=False) == advice_for(Cause.HOST_OOM)


def test_without_a_known_job_no_code_is_judged():
    assert {not_yours(cause, "", has_job=False) for cause in Cause} == {NO_JOB}


DELIVERED = Job(7, "over", (), "acme/api", NOW, name="test", head_sha="f00", html_url="https://x", conclusion="success")


@pytest.mark.parametrize(
    ("recorded", "delivered", "shown"),
    [
        (DeadJob(7), DELIVERED, DeadJob(7, "acme/api", "test", "f00", "success", "https://x")),
        (
            DeadJob(7, "acme/api"),
            DELIVERED._replace(conclusion=""),
            DeadJob(7, "acme/api", "test", "f00", "", "https://x"),
        ),
        (
            DeadJob(7, conclusion="failure", name="own"),
            DELIVERED,
            DeadJob(7, "acme/api", "own", "f00", "failure", "https://x"),
        ),
        (
            DeadJob(7, deploys=True),
            DELIVERED,
            DeadJob(7, "acme/api", "test", "f00", "success", "https://x", deploys=True),
        ),
        (DeadJob(7), DELIVERED._replace(id=8), DeadJob(7)),
        (DeadJob(7), None, DeadJob(7)),
        (None, DELIVERED, None),
    ],
)
def test_what_deliveries_have_shown_of_a_job_completes_its_record_and_changes_nothing_known(recorded, delivered, shown):
    assert with_delivered_job(death(job=recorded), delivered) == death(job=shown)
