"""Every line of the page on failures is checked by a test: which one is listed here, not on the page."""

from __future__ import annotations

from pages import ROOT

CHECKED_BY = {
    "Ctrl-C": "test_a_signal_keeps_the_state_and_says_how_to_go_on",
    "SIGTERM": "test_a_signal_keeps_the_state_and_says_how_to_go_on",
    "Ctrl-C twice": "test_a_second_interrupt_stops_at_once",
    "kill -9, a crash, a power cut": "test_a_run_that_is_killed_and_resumed_ends_as_if_nothing_had_happened",
    "a kill before the first checkpoint": "test_a_run_stopped_before_its_first_checkpoint_begins_again",
    "a signal with several processes": "test_a_signal_stops_all_at_the_same_step_and_the_run_goes_on_to_the_bit",
    "one of several processes dies": "test_a_process_that_dies_ends_the_run_with_its_reason",
    "the process that started the others is killed": "test_processes_whose_parent_is_gone_stop_and_keep_their_state",
    "the same in the middle of a long step": "test_processes_in_the_middle_of_a_long_step_end_soon_after_their_parent",
    "any other command on a full disk": "test_a_full_disk_is_one_sentence",
    "standard output is full": "test_standard_output_that_is_full_is_one_sentence",
    "a folder may not be written": "test_errors_of_the_system_are_sentences",
    "`ele tune` is killed": "test_a_killed_search_leaves_nothing_behind_for_the_next",
    "a damaged `times.jsonl`": "test_damaged_times_are_named_in_a_sentence",
    "records changed after the training": "test_a_record_that_was_changed_after_the_training_is_named",
    "an evaluation changed after it was measured": "test_an_evaluation_that_was_changed_is_named_and_not_shown",
    "weights that are not finite, of another type or all zero": "test_weights_that_no_training_leaves_are_refused",
    "candidates with the embeddings of others": "test_candidates_with_the_embeddings_of_others_are_refused",
    "a file that the manifest does not list": "test_a_file_that_the_manifest_leaves_out_is_refused",
    "a signed model was changed": "test_a_signed_model_loads_with_its_key_until_it_is_changed",
    "a component of a plugin fails": "test_the_command_line_prints_it_as_one_sentence",
    "the loss is not a number": "test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_weights",
    "the disk is full": "test_a_disk_without_room_is_named_and_the_last_checkpoint_is_intact",
    "a damaged or truncated checkpoint": "test_a_damaged_checkpoint_is_named_and_the_one_before_it_used",
    "all checkpoints are damaged": "test_a_run_whose_checkpoints_are_all_damaged_says_so",
    "a checkpoint of a newer version": "test_a_checkpoint_of_a_newer_version_is_refused",
    "a second training run in the same folder": "test_two_trainings_in_one_folder_the_second_is_refused",
    "`ele train` into an unfinished run": "test_an_unfinished_run_is_named_by_every_command",
    "`ele evaluate` of an unfinished run": "test_an_unfinished_run_is_named_by_every_command",
    "the configuration has changed": "test_a_changed_configuration_is_refused",
    "a training option has changed": "test_options_of_training_can_change_if_that_is_accepted",
    "the data have changed": "test_changed_data_are_refused",
    "packing a large file is killed": "test_packing_that_was_stopped_is_never_taken_for_whole_and_is_continued",
    "the disk is full while it is packed": ("test_a_full_disk_is_one_message_and_what_was_packed_is_kept"),
    "a large file changes while it is read": "test_a_file_that_changes_while_it_is_read_is_refused",
    "the model that a run started from is gone, or was changed": (
        "test_a_model_that_is_gone_moved_or_changed_is_named"
    ),
    "a plugin is no longer installed": "test_a_run_whose_plugin_is_gone_says_which",
    "another number of processes": "test_a_run_goes_on_with_another_number_of_processes_and_says_what_differs",
    "an evaluation is stopped": "test_an_evaluation_that_is_stopped_goes_on_when_it_is_asked_for_again",
    "predictions are stopped": "test_predictions_that_are_stopped_go_on_when_they_are_asked_for_again",
    "predictions are killed": "test_a_killed_prediction_goes_on_without_repeating_a_finished_block",
    "a folder with the parts of other predictions": "test_a_folder_with_other_predictions_is_refused",
    "a process of `torchrun --max-restarts` is killed": "test_a_killed_worker_is_replaced_and_no_byte_differs",
    "the file for predictions cannot be written": "test_what_was_decoded_is_not_lost_where_it_cannot_be_written",
    "the run folder cannot be written": "test_a_run_that_cannot_be_written_still_predicts",
    "two training runs start in one folder at the same time": (
        "test_two_trainings_that_begin_at_once_do_not_share_a_folder"
    ),
    "`ele resume` on a run started in Python": "test_a_run_from_python_cannot_be_resumed_without_its_data",
    "the report at the end of a training fails": "test_a_report_that_fails_does_not_fail_the_training",
    "the report at the end of a training is stopped": "test_a_report_that_is_stopped_leaves_a_trained_run",
}
"""The first column of the page → the name of the test."""


def test_every_failure_on_the_page_is_checked_by_a_test_that_exists():
    page = (ROOT / "docs" / "reference" / "failures.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(CHECKED_BY)
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name in CHECKED_BY.values() if f"def {name}(" not in source]
